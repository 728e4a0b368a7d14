"""Typed failures; `rung_at` becomes `enqueued_at`; indexes for the reaper and for a user's tokens"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

FAILURES = ("request", "model", "dataset", "decoding", "grading", "worker_lost")
TABLES = ("runs", "run_tasks")
# Failures were told apart by the first words of their text.
BEGINNINGS = {
    "decoding failed: ": "decoding",
    "grading failed: ": "grading",
    "worker_lost: ": "worker_lost",
    "no sandbox on this machine": "dataset",
    "the dataset cannot be checked: ": "dataset",
    "there is no dataset ": "dataset",
    "no task is left to decode: ": "dataset",
}
RUNS = sa.table("runs", *map(sa.column, ("id", "state", "error", "failure")))
TASKS = sa.table("run_tasks", *map(sa.column, ("run_id", "state", "error", "failure")))


def upgrade() -> None:
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN rung_at TO enqueued_at")
        # In SQL, because SQLite takes a CHECK in ADD COLUMN, and Alembic would copy the table to add one.
        listed = ", ".join(f"'{failure}'" for failure in FAILURES)
        op.execute(
            f"ALTER TABLE {table} ADD COLUMN failure VARCHAR(20) "
            f"CONSTRAINT ck_{table}_failure CHECK (failure IN ({listed}))"
        )
    # A waiting task may keep the error of its last attempt.
    known = sa.case(*((TASKS.c.error.startswith(text), name) for text, name in BEGINNINGS.items()), else_="request")
    op.execute(sa.update(TASKS).where(TASKS.c.error.is_not(None)).values(failure=known))
    # A run of which every task failed has the error of its first.
    of_task = (
        sa.select(sa.func.min(TASKS.c.failure))
        .where(TASKS.c.run_id == RUNS.c.id, TASKS.c.state == "failed", TASKS.c.error == RUNS.c.error)
        .scalar_subquery()
    )
    known = sa.case(*((RUNS.c.error.startswith(text), name) for text, name in BEGINNINGS.items()))
    op.execute(
        sa.update(RUNS).where(RUNS.c.state == "failed").values(failure=sa.func.coalesce(known, of_task, "model"))
    )
    op.create_index("ix_runs_state", "runs", ["state"])
    op.create_index("ix_tokens_user_id", "tokens", ["user_id"])


def downgrade() -> None:
    op.drop_index("ix_tokens_user_id", "tokens")
    op.drop_index("ix_runs_state", "runs")
    for table in TABLES:
        # Since 0024 copies `runs` of SQLite, the CHECK is the table's, not the column's: it would keep the column.
        with op.batch_alter_table(table) as batch:
            batch.drop_constraint(op.f(f"ck_{table}_failure"), type_="check")
            batch.drop_column("failure")
        op.execute(f"ALTER TABLE {table} RENAME COLUMN enqueued_at TO rung_at")
