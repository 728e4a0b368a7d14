"""Follows a run or a study by polling its rows: bars on a terminal, a line per change elsewhere.

The rows say the same whether this process or the server that has the database does the work.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from app.cli.common import format_number
from app.cli.progress import Bars, format_time_left
from app.core.context import Context
from app.core.errors import UnavailableError
from app.core.states import OPEN_RUN_STATES, OPEN_TASK_STATES, RunState, TaskState
from app.jobs.database_lock import DatabaseLock
from app.runs.quiet import describe_quiet_wait
from app.runs.repository import compute_progress, get_run
from app.runs.status import describe_run_status
from app.studies import progress as study_progress
from app.studies.models import Study, StudyArm
from app.studies.repository import get_study
from app.web.ui.units import format_count
from app.workers import service as workers
from app.workers.models import Worker

BEAT_S = 0.5  # between two looks at the database


@dataclass(frozen=True, slots=True)
class ProgressPart:
    """A run or an arm: its ended tasks, facts about them, and `end`, why it ended early."""

    name: str
    done: int
    total: int
    facts: str
    end: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at one moment; `waiting` is what the work waits for, "" if nothing."""

    state: RunState
    parts: Sequence[ProgressPart] = field(default=())
    waiting: str = ""


ReadSnapshot = Callable[[Session, Sequence[Worker]], Snapshot]


class ServerWatch:
    """Detects that the server is gone. `noun` is what it ran, `cancel_command` cancels it."""

    def __init__(self, ctx: Context, noun: str, cancel_command: str) -> None:
        self._lock = DatabaseLock(ctx.database.file, "")
        self._noun, self._cancel_command = noun, cancel_command
        self._last_alive = time.monotonic()

    def check(self, alive: Sequence[Worker]) -> None:
        """Call it repeatedly with the workers that are alive. Raises UnavailableError once the server is gone."""
        if alive:
            self._last_alive = time.monotonic()
        if time.monotonic() - self._last_alive > workers.ALIVE_S or not self._lock.owner():
            raise UnavailableError(
                f"`bassline serve` has stopped: the {self._noun} continues when it starts again, or "
                f"`{self._cancel_command}` cancels it"
            )


def follow_run(ctx: Context, run_id: uuid.UUID, watch: ServerWatch | None) -> None:
    """Follows a run. KeyboardInterrupt passes through; `watch` raises once the server is gone."""
    _follow(ctx, f"run {run_id}", lambda session, alive: _read_run(ctx, session, run_id, alive), watch)


def follow_study(ctx: Context, study_id: uuid.UUID, watch: ServerWatch | None) -> None:
    """The same for a study."""
    _follow(ctx, f"study {study_id}", lambda session, alive: _read_study(session, study_id, alive), watch)


def _follow(ctx: Context, title: str, read: ReadSnapshot, watch: ServerWatch | None) -> None:
    before = Snapshot(RunState.QUEUED)
    with Bars() as bars:
        if not bars.on_terminal:
            bars.note(title)
        while True:
            with ctx.database.read() as session:
                alive = workers.find_alive_workers(session)
                now = read(session, alive)
            if bars.on_terminal:
                _show_bars(bars, now)
            else:
                for line in _list_changes(before, now):
                    bars.note(line)
            if now.state not in OPEN_RUN_STATES:
                return
            if watch is not None:
                watch.check(alive)
            before = now
            ctx.stopping.wait(BEAT_S)


def _show_bars(bars: Bars, now: Snapshot) -> None:
    if len(now.parts) > 1 or now.waiting:
        done, total = sum(part.done for part in now.parts), sum(part.total for part in now.parts)
        bars.show("all", done, total, now.waiting or f"{done} of {total}", "all")
    for part in now.parts:
        bars.show(part.name, part.done, part.total, f"{part.done} of {part.total}  {part.end or part.facts}", part.name)


def _list_changes(before: Snapshot, now: Snapshot) -> Iterator[str]:
    if now.waiting and now.waiting != before.waiting:
        yield now.waiting
    earlier = {part.name: part for part in before.parts}
    for part in now.parts:
        last = earlier.get(part.name)
        if part.done != (last.done if last else 0):
            yield f"{part.name}: task {part.done} of {part.total}, {part.facts}"
        if part.end and part.end != (last.end if last else ""):
            yield f"{part.name}: {part.end}"


def _read_run(ctx: Context, session: Session, run_id: uuid.UUID, alive: Sequence[Worker]) -> Snapshot:
    run = get_run(session, run_id)
    counts = compute_progress(session, run)
    done = _count_ended(counts.by_state)
    failed = counts.by_state.get(TaskState.FAILED, 0)
    facts = f"{counts.samples} samples, {counts.passed} passed, {format_number(counts.tokens_per_s)} tokens/s"
    facts += f", {format_count(failed, 'task')} failed" if failed else f", {format_time_left(counts.remaining_s)}"
    is_open = run.state in OPEN_RUN_STATES
    waiting = (
        (describe_run_status(ctx.bus, run, counts).note or _describe_loading(alive, {run.target})) if is_open else ""
    )
    return Snapshot(run.state, [ProgressPart(run.name, done, run.n_tasks, facts)], waiting)


def _read_study(session: Session, study_id: uuid.UUID, alive: Sequence[Worker]) -> Snapshot:
    study = get_study(session, study_id)
    counts = study_progress.compute_study_progress(session, study)
    left = format_time_left(study_progress.compute_remaining_s(study.arms, counts))
    parts = [
        ProgressPart(
            arm.name, _count_ended(counts[arm.run_id].by_state), arm.run.n_tasks, left, _describe_end(study, arm)
        )
        for arm in study.arms
    ]
    waiting = describe_quiet_wait(study.runs) or _describe_loading(alive, {run.target for run in study.runs})
    return Snapshot(study.state, parts, waiting)


def _count_ended(tasks_by_state: Mapping[TaskState, int]) -> int:
    return sum(number for state, number in tasks_by_state.items() if state not in OPEN_TASK_STATES)


def _describe_end(study: Study, arm: StudyArm) -> str:
    if arm.dropped_by is not None:
        return (
            f"dropped after {format_count(arm.dropped_after or 0, 'task')}: {study.arms[arm.dropped_by].name} is better"
        )
    return f"failed: {arm.run.error}" if arm.run.state is RunState.FAILED else ""


def _describe_loading(alive: Sequence[Worker], targets: set[str]) -> str:
    return next((f"loading {worker.loading}" for worker in alive if worker.loading in targets), "")
