"""The process that answers a request with an Idempotency-Key: a claim of one that is gone is free"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("idempotency_keys", sa.Column("owner", sa.String(300)))


def downgrade() -> None:
    op.drop_column("idempotency_keys", "owner")
