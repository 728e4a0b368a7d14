"""A run may wait until another has ended: the second completion of a race"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Not a foreign key: on SQLite that would copy the table, and an open run, the only one waited for, is not deleted.
    op.add_column("runs", sa.Column("after_id", sa.Uuid(), nullable=True))
    op.create_index(op.f("ix_runs_after_id"), "runs", ["after_id"])


def downgrade() -> None:
    op.drop_index(op.f("ix_runs_after_id"), "runs")
    op.drop_column("runs", "after_id")
