"""How few samples a completion may get while workers are short of places"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("n_min", sa.Integer()))


def downgrade() -> None:
    op.drop_column("runs", "n_min")
