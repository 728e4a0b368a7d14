"""Tags and stars go: those of a run or a study become the last line of its note."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

TAGS = (("runs", "run_tags", "run_id"), ("studies", "study_tags", "study_id"))


def upgrade() -> None:
    for table, tags, key in TAGS:
        _note_tags(table, tags, key)
        op.drop_table(tags)
        op.drop_column(table, "starred")


def _note_tags(table: str, tags: str, key: str) -> None:
    rows = sa.table(table, sa.column("id"), sa.column("note"), sa.column("starred", sa.Boolean()))
    tag = sa.table(tags, sa.column(key), sa.column("tag"))
    connection = op.get_bind()
    words: dict[object, list[str]] = {}
    for row_id, word in connection.execute(sa.select(tag.c[key], tag.c.tag).order_by(tag.c.tag)):
        words.setdefault(row_id, []).append(word)
    for row_id in connection.scalars(sa.select(rows.c.id).where(rows.c.starred)):
        words.setdefault(row_id, []).append("starred")
    for row_id, found in words.items():
        (note,) = connection.scalars(sa.select(rows.c.note).where(rows.c.id == row_id))
        text = "\n".join(filter(None, (note, f"Tags: {', '.join(found)}")))
        connection.execute(sa.update(rows).where(rows.c.id == row_id).values(note=text))


def downgrade() -> None:
    """Makes the tables and columns without tags and stars; the notes keep what they were."""
    for table, tags, key in TAGS:
        op.add_column(table, sa.Column("starred", sa.Boolean(), server_default=sa.false(), nullable=False))
        op.create_table(
            tags,
            sa.Column(key, sa.Uuid(), nullable=False),
            sa.Column("tag", sa.String(length=40), nullable=False),
            sa.ForeignKeyConstraint([key], [f"{table}.id"], name=f"fk_{tags}_{key}_{table}", ondelete="CASCADE"),
            sa.PrimaryKeyConstraint(key, "tag", name=f"pk_{tags}"),
        )
        op.create_index(f"ix_{tags}_tag", tags, ["tag"])
