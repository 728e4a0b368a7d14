"""Each curve names the set of tasks that it is over"""

import hashlib
from itertools import groupby

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

CURVES = sa.table("run_curves", sa.column("run_id", sa.Uuid()), sa.column("tasks"), sa.column("n_tasks"))
JOBS = sa.table("run_tasks", *map(sa.column, ("id", "task_pk", "state")), sa.column("run_id", sa.Uuid()))
TASKS = sa.table("tasks", *map(sa.column, ("id", "task_id")))
SAMPLES = sa.table("samples", *map(sa.column, ("run_task_id", "verdict")))


def upgrade() -> None:
    op.add_column("run_curves", sa.Column("tasks", sa.String(64), nullable=False, server_default=""))
    connection = op.get_bind()
    for run_id, rows in groupby(connection.execute(_graded()).all(), key=lambda row: row.run_id):
        name = hashlib.sha256("\n".join(sorted(row.task_id for row in rows)).encode()).hexdigest()
        connection.execute(sa.update(CURVES).where(CURVES.c.run_id == run_id).values(tasks=name))


def downgrade() -> None:
    op.drop_column("run_curves", "tasks")


def _graded() -> sa.Select:
    """(run_id, task_id) of the graded tasks of the runs with a curve, run by run."""
    unjudged = (
        sa.select(SAMPLES.c.run_task_id)
        .where(
            SAMPLES.c.run_task_id == JOBS.c.id,
            sa.or_(SAMPLES.c.verdict.is_(None), SAMPLES.c.verdict == "sandbox_error"),
        )
        .exists()
    )
    return (
        sa.select(JOBS.c.run_id, TASKS.c.task_id)
        .join_from(JOBS, TASKS, TASKS.c.id == JOBS.c.task_pk)
        .join(CURVES, CURVES.c.run_id == JOBS.c.run_id)
        .where(CURVES.c.n_tasks > 0, JOBS.c.state == "finished", ~unjudged)
        .order_by(JOBS.c.run_id)
    )
