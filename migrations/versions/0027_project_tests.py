"""Tasks that the tests of their project judge, and the archives of the files that these need"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from app.db.downgrade import refuse_to_change_tasks

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("tasks", sa.Column("project_tests", JSON))
    op.add_column("datasets", sa.Column("coverage", JSON))
    op.create_table(
        "archives",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_archives")),
    )


def downgrade() -> None:
    refuse_to_change_tasks("project_tests IS NOT NULL", "the tests of a project")
    op.drop_table("archives")
    op.drop_column("datasets", "coverage")
    op.drop_column("tasks", "project_tests")
