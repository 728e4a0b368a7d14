"""A POST is carried out each time it is sent: the answers kept for an Idempotency-Key go."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_table("idempotency_keys")


def downgrade() -> None:
    """Makes the table without rows: a repeated request of the day before is carried out."""
    op.create_table(
        "idempotency_keys",
        sa.Column("caller", sa.String(length=100), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("request_sha256", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("content_type", sa.String(length=100), nullable=True),
        sa.Column("location", sa.String(length=500), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("owner", sa.String(length=300), nullable=True),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_idempotency_keys_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_idempotency_keys"),
        sa.UniqueConstraint("caller", "key", name="uq_idempotency_keys_caller_key"),
    )
    op.create_index("ix_idempotency_keys_expires_at", "idempotency_keys", ["expires_at"])
    op.create_index("ix_idempotency_keys_run_id", "idempotency_keys", ["run_id"])
