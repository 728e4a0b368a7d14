"""Which queues a worker consumes, and whether its processes keep dying"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(sa.dialects.postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("workers", sa.Column("node", sa.String(300)))
    op.add_column("workers", sa.Column("queues", JSON))
    op.add_column("workers", sa.Column("crashes", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("workers", sa.Column("stopped_at", sa.DateTime(timezone=True)))
    op.create_index("ix_workers_node", "workers", ["node"])


def downgrade() -> None:
    op.drop_index("ix_workers_node", "workers")
    for column in ("stopped_at", "crashes", "queues", "node"):
        op.drop_column("workers", column)
