"""The search reads the samples: its index goes. No run waits for a comparison with plain decoding any more."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

WORDS = sa.Text().with_variant(postgresql.TSVECTOR(), "postgresql")
FTS5 = """
CREATE VIRTUAL TABLE task_words_index USING fts5(
    words, content='task_words', content_rowid='id', detail=none, columnsize=0, tokenize="ascii tokenchars '_'"
)
"""
TRIGGERS = {"insert": "INSERT", "delete": "DELETE", "update": "UPDATE OF words"}

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_column("runs", "compare_plain")
    op.drop_table("task_words")  # with its triggers
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE task_words_index")


def downgrade() -> None:
    """Makes the index without words: the version before does not find the samples that are there."""
    op.add_column("runs", sa.Column("compare_plain", sa.Integer(), nullable=True))
    op.create_table(
        "task_words",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run_task_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("words", WORDS, nullable=True),
        sa.ForeignKeyConstraint(
            ["run_task_id"], ["run_tasks.id"], name="fk_task_words_run_task_id_run_tasks", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_task_words"),
        sa.UniqueConstraint("run_task_id", name="uq_task_words_run_task_id"),
    )
    op.create_index("ix_task_words_run_id", "task_words", ["run_id"])
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE INDEX task_words_index ON task_words USING gin (words)")
        return
    op.execute(FTS5)
    add = "INSERT INTO task_words_index (rowid, words) SELECT new.id, new.words WHERE new.words IS NOT NULL;"
    remove = (
        "INSERT INTO task_words_index (task_words_index, rowid, words) "
        "SELECT 'delete', old.id, old.words WHERE old.words IS NOT NULL;"
    )
    actions = {"insert": add, "delete": remove, "update": f"{remove} {add}"}
    for name, event in TRIGGERS.items():
        op.execute(f"CREATE TRIGGER task_words_{name} AFTER {event} ON task_words BEGIN {actions[name]} END")
