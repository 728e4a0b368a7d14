"""Leases and progress of the checks of datasets' canonical solutions"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "dataset_check_jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("sandbox", sa.String(200), nullable=False),
        sa.Column("claimed_by", sa.String(200)),
        sa.Column("lease_until", sa.DateTime(timezone=True)),
        sa.Column("fence", sa.Uuid()),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("cursor", JSON, nullable=False),
        sa.Column("failed", JSON, nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_dataset_check_jobs_dataset_id_datasets"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dataset_check_jobs")),
        sa.UniqueConstraint("dataset_id", "sandbox", name=op.f("uq_dataset_check_jobs_dataset_id_sandbox")),
    )


def downgrade() -> None:
    op.drop_table("dataset_check_jobs")
