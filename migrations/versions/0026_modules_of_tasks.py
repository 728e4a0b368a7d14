"""The module in which the answer to a task made from code runs"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from app.db.downgrade import refuse_to_change_tasks

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("tasks", sa.Column("module", JSON))


def downgrade() -> None:
    refuse_to_change_tasks("module IS NOT NULL", "the module around an answer")
    op.drop_column("tasks", "module")
