"""How many prompts of a run are decoded again without drafting, so that resuming it makes the comparison as well"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("compare_plain", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("runs", "compare_plain")
