"""What waits in a run found by an index; in-guest verdicts and tasks left counted for runs that ended before"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

RUNS = sa.table("runs", sa.column("id", sa.Uuid()), sa.column("figures", sa.JSON().with_variant(JSONB(), "postgresql")))
TASKS = sa.table("run_tasks", sa.column("id"), sa.column("run_id", sa.Uuid()), sa.column("state"))
SAMPLES = sa.table("samples", sa.column("run_task_id"), sa.column("verdict"), sa.column("trust"))


def upgrade() -> None:
    op.create_index("ix_run_tasks_run_id_state", "run_tasks", ["run_id", "state"])
    connection = op.get_bind()
    in_guest = {row.run_id: row for row in connection.execute(_in_guest())}
    states = {row.run_id: row for row in connection.execute(_states())}
    for run_id, figures in connection.execute(sa.select(RUNS.c.id, RUNS.c.figures)).all():
        if figures is None:
            continue
        guests, tasks = in_guest.get(run_id), states.get(run_id)
        figures |= {
            "in_guest_tasks": guests.tasks if guests else 0,
            "in_guest_samples": guests.samples if guests else 0,
            "in_guest_passed": int(guests.passed) if guests else 0,
            # With such verdicts the shares without them are for the samples to tell: they stay unknown.
            "pass_first_proxy": None if guests else figures.get("pass_first"),
            "pass_all_proxy": None if guests else figures.get("pass_all"),
            "tasks_decoded": int(tasks.decoded) if tasks else 0,
            "tasks_left": int(tasks.left) if tasks else 0,
        }
        connection.execute(sa.update(RUNS).where(RUNS.c.id == run_id).values(figures=figures))


def downgrade() -> None:
    op.drop_index("ix_run_tasks_run_id_state", "run_tasks")  # figures may hold more than their readers know


def _in_guest() -> sa.Select:
    """Per run with such verdicts: its graded tasks and samples that have them, and how many passed."""
    other = SAMPLES.alias("other")
    unjudged = (
        sa.select(other.c.run_task_id)
        .where(other.c.run_task_id == TASKS.c.id, sa.or_(other.c.verdict.is_(None), other.c.verdict == "sandbox_error"))
        .exists()
    )
    return (
        sa.select(
            TASKS.c.run_id,
            sa.func.count(sa.distinct(TASKS.c.id)).label("tasks"),
            sa.func.count().label("samples"),
            sa.func.sum(sa.case((SAMPLES.c.verdict == "passed", 1), else_=0)).label("passed"),
        )
        .join_from(SAMPLES, TASKS, SAMPLES.c.run_task_id == TASKS.c.id)
        .where(SAMPLES.c.trust == "in-guest", TASKS.c.state == "finished", ~unjudged)
        .group_by(TASKS.c.run_id)
    )


def _states() -> sa.Select:
    """Per run: tasks whose samples are stored, and tasks that are not finished."""
    decoded = TASKS.c.state.in_(("decoded", "grading", "finished"))
    return sa.select(
        TASKS.c.run_id,
        sa.func.sum(sa.case((decoded, 1), else_=0)).label("decoded"),
        sa.func.sum(sa.case((TASKS.c.state != "finished", 1), else_=0)).label("left"),
    ).group_by(TASKS.c.run_id)
