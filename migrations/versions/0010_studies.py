"""Studies and their arms"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(sa.dialects.postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "studies",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("budget_s", sa.Double(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("race", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("block_tasks", sa.Integer(), nullable=False),
        sa.Column("machine", JSON, nullable=False),
        sa.Column("checked_at", sa.DateTime(timezone=True)),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("measured_elsewhere", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name="fk_studies_dataset_id_datasets"),
        sa.PrimaryKeyConstraint("id", name="pk_studies"),
    )
    for column in ("name", "dataset_id", "created_at"):
        op.create_index(f"ix_studies_{column}", "studies", [column])
    op.create_table(
        "study_arms",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("dropped_at", sa.DateTime(timezone=True)),
        sa.Column("dropped_by", sa.Integer()),
        sa.Column("dropped_after", sa.Integer()),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name="fk_study_arms_study_id_studies", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_study_arms_run_id_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_study_arms"),
        sa.UniqueConstraint("run_id", name="uq_study_arms_run_id"),
        sa.UniqueConstraint("study_id", "position", name="uq_study_arms_study_id_position"),
        sa.UniqueConstraint("study_id", "name", name="uq_study_arms_study_id_name"),
    )
    op.create_index("ix_study_arms_study_id", "study_arms", ["study_id"])


def downgrade() -> None:
    op.drop_table("study_arms")
    op.drop_table("studies")
