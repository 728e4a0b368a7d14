"""Before a task is measured, its worker waits until other programs leave the machine, up to the limit of its run.

Runs ask for it (app/runs/quiet.py). After the limit the task is decoded all the same, and what others took meanwhile
marks the run (app/runs/clock.py).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import select, update

from app.core.broker import turns
from app.core.context import Context
from app.core.events import event_types
from app.jobs.next_job import is_interactive_run_waiting
from app.jobs.work import cpu_turns, machine_use
from app.jobs.work.decode_job import DecodeJob
from app.runs.clock import compute_lost_share, is_disturbed
from app.runs.models import Run
from app.runs.quiet import QuietWait, describe_wait, parse_quiet_wait

if TYPE_CHECKING:
    from app.core.ports import Engine

WINDOW_S = 0.5
"""For which the machine is measured: short beside a task, and 50 ticks of the system's counters on each CPU."""
TELL_EVERY_S = 10.0
log = structlog.get_logger(__name__)


def wait_for_quiet(ctx: Context, job: DecodeJob, engine: Engine) -> None:
    """Returns once others take no more of the machine than a task may lose, or the limit is over, or the job stops.

    Raises GaveWayError where an interactive job came, and after a turn: so other runs are served meanwhile.
    """
    if job.run.quiet is None or job.run.throughput or job.claim.policy.interactive:
        return
    wait = _Wait(ctx, job)
    try:
        while wait.left_s > 0 and job.lease.stop_reason is None:
            with cpu_turns.hold_decoding_turn(ctx, job, engine):  # what is graded here must not count as others
                use = _measure(ctx)
            if use is None or not is_disturbed(use):
                return
            wait.tell(use)
            if wait.elapsed_s >= turns.TURN_S or is_interactive_run_waiting(ctx, job.run):
                raise cpu_turns.GaveWayError
    finally:
        wait.end()


def _measure(ctx: Context) -> machine_use.MachineUse | None:
    before = machine_use.read_cpu_counters()
    ctx.stopping.wait(WINDOW_S)
    return machine_use.compute_use_since(before)


class _Wait:
    """The wait before one task: what is left of its run's limit, and what the run's row and live views say about it."""

    def __init__(self, ctx: Context, job: DecodeJob) -> None:
        self._ctx, self._job = ctx, job
        run_id = job.run.id
        with ctx.database.read() as session:
            sharing = job.claim.policy.list_runs_sharing_wait(session, run_id)
            columns = session.execute(select(Run.id, Run.quiet).where(Run.id.in_(sharing))).all()
        waits = {key: wait for key, column in columns if (wait := parse_quiet_wait(column)) is not None}
        self._before = waits.get(run_id) or QuietWait(0.0)
        self._limit_s = self._before.limit_s - sum(wait.waited_s for wait in waits.values())
        self._began = time.monotonic()
        self._reported_at_s: float | None = None

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    @property
    def left_s(self) -> float:
        """Seconds until the limit is over."""
        return self._limit_s - self.elapsed_s

    def tell(self, use: machine_use.MachineUse) -> None:
        """Stores and publishes why it waits, at once and then every TELL_EVERY_S."""
        if self._reported_at_s is not None and self.elapsed_s - self._reported_at_s < TELL_EVERY_S:
            return
        self._reported_at_s = self.elapsed_s
        lost, stolen = compute_lost_share(use) or 0.0, use.steal_s > use.others_cpu_s
        self._store(lost, stolen=stolen)
        message = describe_wait(lost, self.left_s, stolen=stolen)
        self._ctx.bus.publish(self._job.run.id, event_types.LOADING, {"message": message})

    def end(self) -> None:
        """Stores how long it waited, if at all."""
        if self._reported_at_s is None:
            return
        self._store(None)
        if self.left_s <= 0:
            log.warning("the machine did not become quiet: the run is measured all the same", run=str(self._job.run.id))

    def _store(self, lost: float | None, *, stolen: bool = False) -> None:
        waited_s = self._before.waited_s + min(self.elapsed_s, self._limit_s)
        now = QuietWait(self._before.limit_s, waited_s, lost, stolen)

        def write() -> None:
            with self._ctx.database.session() as session:
                session.execute(update(Run).where(Run.id == self._job.run.id).values(quiet=now.to_json()))

        self._job.lease.store(write)
