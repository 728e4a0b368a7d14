"""How the weights of a run's models are stored: dense, or quantized"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("weights", sa.String(20), nullable=False, server_default="dense"))


def downgrade() -> None:
    op.drop_column("runs", "weights")
