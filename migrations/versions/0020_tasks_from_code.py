"""Where a task made from code comes from, the program of a task whose prompt does not run, and functions left out"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from app.db.downgrade import refuse_to_change_tasks

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("tasks", sa.Column("program_prefix", sa.Text()))
    op.add_column("tasks", sa.Column("source", JSON))
    op.add_column("datasets", sa.Column("n_left_out", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("datasets", sa.Column("left_out", JSON))


def downgrade() -> None:
    refuse_to_change_tasks("program_prefix IS NOT NULL", "what stands before an infilled answer")
    op.drop_column("datasets", "left_out")
    op.drop_column("datasets", "n_left_out")
    op.drop_column("tasks", "source")
    op.drop_column("tasks", "program_prefix")
