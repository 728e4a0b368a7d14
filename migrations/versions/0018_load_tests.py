"""Load tests"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(sa.dialects.postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "load_tests",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("settings", JSON, nullable=False),
        sa.Column("idle", JSON, nullable=False),
        sa.Column("points", JSON, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_load_tests"),
    )
    for column in ("name", "created_at"):
        op.create_index(f"ix_load_tests_{column}", "load_tests", [column])


def downgrade() -> None:
    op.drop_table("load_tests")
