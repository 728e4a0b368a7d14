"""How long measuring a run waits for other programs to leave the machine"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("runs", sa.Column("quiet", JSON))


def downgrade() -> None:
    op.drop_column("runs", "quiet")
