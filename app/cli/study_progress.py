"""Live progress of a study on stderr: a bar for each arm on a terminal, a line per finished task elsewhere."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from app.cli.handover import Watch, alive_workers
from app.cli.progress import Bars, time_left
from app.core.context import Context
from app.core.states import OPEN_RUN_STATES, RunState
from app.runs.quiet import describe_quiet_wait
from app.studies import progress
from app.studies.models import Study, StudyArm
from app.studies.progress import ArmProgress
from app.studies.repository import get_study
from app.web.ui.units import counted

BEAT_S = 1.0  # between two looks at the database, so that watching costs the arms nothing


@dataclass(frozen=True, slots=True)
class Look:
    """The study at one moment; `loading` is the model that a worker loads, `waiting` why measuring waits."""

    study: Study
    arms: dict[uuid.UUID, ArmProgress]
    loading: str | None
    waiting: str | None

    def done(self, arm: StudyArm) -> int:
        """Finished tasks of the arm."""
        return self.arms[arm.run_id].finished

    @property
    def left(self) -> str:
        """The time left, in words."""
        return time_left(progress.remaining_s(self.study.arms, self.arms))


def show(ctx: Context, study_id: uuid.UUID, watch: Watch | None) -> None:
    """Follows the study to its end. KeyboardInterrupt passes through; `watch` raises once the server is gone."""
    before: Look | None = None
    with Bars() as bars:
        if not bars.on_terminal:
            bars.note(f"study {study_id}")
        for look in _watch_rows(ctx, study_id, watch):
            if bars.on_terminal:
                _show_arms(bars, look)
            else:
                for line in _lines(before, look):
                    bars.note(line)
            before = look


def _watch_rows(ctx: Context, study_id: uuid.UUID, watch: Watch | None) -> Iterator[Look]:
    while True:
        with ctx.database.read() as session:
            study = get_study(session, study_id)
            alive = alive_workers(session)
            targets = {run.target for run in study.runs}
            loading = next((worker.loading for worker in alive if worker.loading in targets), None)
            look = Look(study, progress.of_study(session, study), loading, describe_quiet_wait(study.runs))
        yield look
        if study.state not in OPEN_RUN_STATES:
            return
        if watch is not None:
            watch.check(alive)
        ctx.stopping.wait(BEAT_S)


def _lines(before: Look | None, look: Look) -> Iterator[str]:
    """The changes since the last look."""
    if look.loading and (before is None or before.loading != look.loading):
        yield f"loading {look.loading}"
    if look.waiting and (before is None or before.waiting != look.waiting):
        yield look.waiting
    for place, arm in enumerate(look.study.arms):
        earlier = before.study.arms[place] if before else None
        done = look.done(arm)
        if done != (before.done(earlier) if before and earlier else 0):
            yield f"{arm.name}: task {done} of {arm.run.n_tasks}, {look.left}"
        if arm.dropped_at is not None and (earlier is None or earlier.dropped_at is None):
            yield f"{arm.name}: {_state(look.study, arm)}"
        elif arm.run.state is RunState.FAILED and (earlier is None or earlier.run.state is not RunState.FAILED):
            yield f"{arm.name}: failed: {arm.run.error}"


def _show_arms(bars: Bars, look: Look) -> None:
    arms = look.study.arms
    together = sum(map(look.done, arms)), sum(arm.run.n_tasks for arm in arms)
    doing = look.waiting or (f"loading {look.loading}" if look.loading else look.left)
    bars.show("all arms", *together, f"{together[0]} of {together[1]}  {doing}")
    for arm in arms:
        done, total = look.done(arm), arm.run.n_tasks
        bars.show(arm.name, done, total, f"{done} of {total}  {_state(look.study, arm)}", arm.id)


def _state(study: Study, arm: StudyArm) -> str:
    if arm.dropped_by is not None:
        return f"dropped after {counted(arm.dropped_after or 0, 'task')}: {study.arms[arm.dropped_by].name} is better"
    return str(arm.run.state)
