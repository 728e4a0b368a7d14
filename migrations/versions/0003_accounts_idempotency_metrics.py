"""Scopes and passwords, stored answers for Idempotency-Key, what a worker is loading, an index for metrics"""

import sqlalchemy as sa
from alembic import op

UTC = sa.DateTime(timezone=True)
SCOPES = ("read", "submit", "admin")

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    scope = sa.Enum(*SCOPES, name="scope", native_enum=False, create_constraint=True, length=20)
    # Whoever had a token or an account so far could do everything.
    for table in ("tokens", "users"):
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.add_column(sa.Column("scope", scope, nullable=False, server_default="admin"))
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.alter_column("scope", server_default=None)
    with op.batch_alter_table("users", schema=None) as batch_op:
        batch_op.add_column(sa.Column("password_hash", sa.String(length=200), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("signed_out_at", UTC, nullable=True))
    with op.batch_alter_table("users", schema=None) as batch_op:
        batch_op.alter_column("password_hash", server_default=None)
    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.add_column(sa.Column("loading", sa.String(length=500), nullable=True))
    with op.batch_alter_table("run_tasks", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_run_tasks_finished_at"), ["finished_at"], unique=False)
    op.create_table(
        "idempotency_keys",
        sa.Column("caller", sa.String(length=100), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("request_sha256", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("content_type", sa.String(length=100), nullable=True),
        sa.Column("location", sa.String(length=500), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", UTC, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idempotency_keys")),
        sa.UniqueConstraint("caller", "key", name=op.f("uq_idempotency_keys_caller_key")),
    )
    with op.batch_alter_table("idempotency_keys", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_idempotency_keys_expires_at"), ["expires_at"], unique=False)


def downgrade() -> None:
    op.drop_table("idempotency_keys")
    with op.batch_alter_table("run_tasks", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_run_tasks_finished_at"))
    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.drop_column("loading")
    with op.batch_alter_table("users", schema=None) as batch_op:
        batch_op.drop_column("signed_out_at")
        batch_op.drop_column("password_hash")
    for table in ("tokens", "users"):
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.drop_constraint(batch_op.f(f"ck_{table}_scope"), type_="check")
            batch_op.drop_column("scope")
