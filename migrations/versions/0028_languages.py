"""Tasks in other languages than Python: their signature and their cases"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from app.db.downgrade import refuse_to_change_tasks

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("tasks", sa.Column("language", sa.String(30), nullable=False, server_default="python"))
    op.add_column("tasks", sa.Column("signature", JSON))
    op.add_column("tasks", sa.Column("cases", JSON))


def downgrade() -> None:
    refuse_to_change_tasks("language <> 'python' OR cases IS NOT NULL", "languages other than Python and cases")
    op.drop_column("tasks", "cases")
    op.drop_column("tasks", "signature")
    op.drop_column("tasks", "language")
