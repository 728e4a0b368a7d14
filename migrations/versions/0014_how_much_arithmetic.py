"""Tokens that went through the target, and the rate of arithmetic: for the utilization of the device"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("run_tasks", sa.Column("n_verified", sa.Integer()))
    op.add_column("calibrations", sa.Column("flops_per_s", sa.Double()))


def downgrade() -> None:
    op.drop_column("calibrations", "flops_per_s")
    op.drop_column("run_tasks", "n_verified")
