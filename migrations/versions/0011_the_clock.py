"""How much of the machine others took from a task, and how fast the machine was during a run"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

COLUMNS = ("capacity_s", "others_cpu_s", "steal_s", "load_average")


def upgrade() -> None:
    for column in COLUMNS:
        op.add_column("run_tasks", sa.Column(column, sa.Double()))
    op.create_table(
        "calibrations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("worker", sa.String(200), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("verify_s", sa.Double(), nullable=False),
        sa.Column("read_bytes_per_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_calibrations_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_calibrations"),
    )
    op.create_index("ix_calibrations_run_id_at", "calibrations", ["run_id", "at"])


def downgrade() -> None:
    op.drop_table("calibrations")
    for column in COLUMNS:
        op.drop_column("run_tasks", column)
