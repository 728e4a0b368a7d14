"""The search index: a row for each task with samples. Its words are read later, while the service works."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

# FTS5 keeps no copy of the words and no positions. The tokenizer "ascii" splits at ASCII characters other than letters
# and digits, of which the words hold the underscore alone.
FTS5 = """
CREATE VIRTUAL TABLE task_words_index USING fts5(
    words, content='task_words', content_rowid='id', detail=none, columnsize=0, tokenize="ascii tokenchars '_'"
)
"""
ADD = "INSERT INTO task_words_index (rowid, words) SELECT new.id, new.words WHERE new.words IS NOT NULL;"
REMOVE = """
INSERT INTO task_words_index (task_words_index, rowid, words)
SELECT 'delete', old.id, old.words WHERE old.words IS NOT NULL;
"""
# One trigger for a change, because SQLite does not say in which order it runs two.
TRIGGERS = {"INSERT": ADD, "DELETE": REMOVE, "UPDATE OF words": f"{REMOVE} {ADD}"}
# A completion is not found, nor a baseline: lists hide both.
OLD_TASKS = """
INSERT INTO task_words (run_task_id, run_id)
SELECT run_tasks.id, run_tasks.run_id FROM run_tasks JOIN runs ON runs.id = run_tasks.run_id
WHERE runs.kind IN ('eval', 'imported') AND EXISTS (SELECT 1 FROM samples WHERE samples.run_task_id = run_tasks.id)
ORDER BY run_tasks.run_id, run_tasks.position
"""


def upgrade() -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "task_words",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run_task_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("words", TSVECTOR() if postgresql else sa.Text()),
        sa.ForeignKeyConstraint(
            ["run_task_id"], ["run_tasks.id"], "fk_task_words_run_task_id_run_tasks", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_task_words"),
        sa.UniqueConstraint("run_task_id", name="uq_task_words_run_task_id"),
    )
    op.create_index("ix_task_words_run_id", "task_words", ["run_id"])
    where = sa.text("words IS NULL")
    op.create_index("ix_task_words_unread", "task_words", ["id"], postgresql_where=where, sqlite_where=where)
    if postgresql:
        op.execute("CREATE INDEX task_words_index ON task_words USING gin (words)")
    else:
        op.execute(FTS5)
        for event, action in TRIGGERS.items():
            op.execute(f"CREATE TRIGGER {name_of(event)} AFTER {event} ON task_words BEGIN {action} END")
    op.execute(OLD_TASKS)


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for event in TRIGGERS:
            op.execute(f"DROP TRIGGER {name_of(event)}")
        op.execute("DROP TABLE task_words_index")
    op.drop_table("task_words")


def name_of(event: str) -> str:
    return f"task_words_{event.split(maxsplit=1)[0].lower()}"
