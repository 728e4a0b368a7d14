"""Runs that decode several tasks in one batch"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The default stays: to take it away, SQLite would make the table anew, and everything hangs on it by cascades.
    op.add_column("runs", sa.Column("throughput", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("runs", "throughput")
