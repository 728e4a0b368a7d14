"""Tags, a note and a star on runs and studies, and whether they are archived"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

TAGGED = (("runs", "run_tags", "run_id"), ("studies", "study_tags", "study_id"))


def upgrade() -> None:
    for table, tags, key in TAGGED:
        op.add_column(table, sa.Column("note", sa.Text(), nullable=False, server_default=""))
        op.add_column(table, sa.Column("starred", sa.Boolean(), nullable=False, server_default=sa.false()))
        op.add_column(table, sa.Column("archived", sa.Boolean(), nullable=False, server_default=sa.false()))
        op.create_table(
            tags,
            sa.Column(key, sa.Uuid(), nullable=False),
            sa.Column("tag", sa.String(40), nullable=False),
            sa.ForeignKeyConstraint([key], [f"{table}.id"], name=f"fk_{tags}_{key}_{table}", ondelete="CASCADE"),
            sa.PrimaryKeyConstraint(key, "tag", name=f"pk_{tags}"),
        )
        op.create_index(f"ix_{tags}_tag", tags, ["tag"])


def downgrade() -> None:
    for table, tags, _ in reversed(TAGGED):
        op.drop_table(tags)
        for column in ("archived", "starred", "note"):
            op.drop_column(table, column)
