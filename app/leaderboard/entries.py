"""The ended runs as the leaderboard keeps them in memory, so that a request reads only those that changed."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from sqlalchemy.orm import Session

from app.leaderboard import repository
from app.leaderboard.repository import Version
from app.runs.configuration import fingerprint
from app.runs.figures import stored_curve
from app.runs.labels import setting_words, short_labels
from app.runs.models import Run
from app.states import RunState
from evaluation.metrics import Curve

ELSEWHERE = "measured elsewhere"  # also in the name of the device, so that no chart mixes these runs with others
READ_ALL_FROM = 100  # changed runs; from here on, one query without ids is cheaper than one that lists them


@dataclass(frozen=True)
class Entry:
    """A run on the leaderboard, independent of a budget: immutable values that threads share.

    `label` tells why a run is not ranked, None for one that is. `n_tasks` of `dataset_tasks` were graded, and `tasks`
    is the same for runs over the same ones. `budget_s` is the run's own budget, where its curve ends. Times are in
    seconds; `ms_per_token` is the mean over all samples. `in_guest_*` count verdicts that a program could have forged
    (app/runs/caveats.py), None for runs from before they were counted. `clock_marks` say why its times are not to be
    trusted, None where that is not known. `settings` are its options in words.
    """

    id: uuid.UUID
    version: Version
    name: str
    state: RunState
    label: str | None
    target: str
    weights: str
    drafter: str
    draft_length: str
    n: int
    budget_s: float
    temperature: float
    top_p: float
    prompt_mode: str
    throughput: bool
    dataset: str
    dataset_sha256: str
    dataset_tasks: int
    device: str
    created_at: dt.datetime
    n_tasks: int
    tasks: str
    curve: Curve
    first_finished_p50_s: float | None
    first_finished_p95_s: float | None
    ms_per_token: float | None
    tokens_per_s: float | None
    mean_acceptance_length: float | None
    seconds_per_right: float | None
    peak_memory_bytes: int | None
    fingerprint: str
    settings: tuple[str, ...]
    in_guest_tasks: int | None
    in_guest_samples: int | None
    in_guest_passed: int | None
    clock_marks: tuple[str, ...] | None

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags in alphabetical order."""
        return self.version.tags

    @property
    def starred(self) -> bool:
        """Whether it is marked as worth finding again."""
        return self.version.starred

    @property
    def number(self) -> int:
        """What gives the run its colour (app/runs/colours.py)."""
        return self.version.number

    @property
    def archived(self) -> bool:
        """Whether it is left out unless archived runs are asked for."""
        return self.version.archived

    @property
    def group(self) -> tuple[str, str, bool, str]:
        """Runs with equal groups compare: same dataset content, same tasks, same device, times measured alike."""
        return self.dataset_sha256, self.device, self.throughput, self.tasks

    @cached_property
    def first_gained(self) -> str:
        """When Pass@First gains a task, in milliseconds after it gained the one before, for the page's script."""
        return self._times(self.curve.pass_first, 1)

    @cached_property
    def first_lost(self) -> str:
        """The same of the tasks that it loses again, because a later sample is chosen and fails."""
        return self._times(self.curve.pass_first, -1)

    @cached_property
    def all_gained(self) -> str:
        """When Pass@All gains a task."""
        return self._times(self.curve.pass_all, 1)

    def _times(self, shares: Sequence[float], sign: int) -> str:
        counts = [0, *(round(share * self.n_tasks) for share in shares)]
        changes = zip(self.curve.budgets, pairwise(counts), strict=True)
        times = [at_millisecond(at) for at, (before, after) in changes for _ in range(sign * (after - before))]
        return " ".join(str(time - before) for before, time in pairwise((0, *times)))


def labels_of(runs: Sequence[Entry]) -> dict[uuid.UUID, str]:
    """A distinct label for each run, by id."""
    names, settings, created = ([getattr(run, name) for run in runs] for name in ("name", "settings", "created_at"))
    return {run.id: label for run, label in zip(runs, short_labels(names, settings, created), strict=True)}


def at_millisecond(seconds: float) -> int:
    """The first whole millisecond that is not before a time: budgets in the page have no more digits."""
    rounded = round(seconds * 1000)
    return rounded if rounded / 1000 >= seconds else rounded + 1


class Entries:
    """A cache of all entries. Reads a run again when its result has changed; threads may share it.

    What people noted on a run is part of its version, so a change of that reads nothing more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: list[Version] = []
        self._entries: list[Entry] = []

    def read(self, session: Session) -> list[Entry]:
        """The evaluation runs that have ended with at least one graded task, newest first; archived ones, too."""
        versions = repository.versions(session)
        with self._lock:
            if versions != self._versions:
                known = {entry.version.result: entry for entry in self._entries}
                changed = [version.id for version in versions if version.result not in known]
                read = _read(session, changed) if changed else {}
                found = ((read.get(version.id) or known.get(version.result), version) for version in versions)
                self._entries = [_noted(entry, version) for entry, version in found if entry]  # one may be deleted
                self._versions = [entry.version for entry in self._entries]
            return self._entries


def _read(session: Session, changed: Collection[uuid.UUID]) -> dict[uuid.UUID, Entry]:
    runs = repository.runs_with_curves(session, changed if len(changed) < READ_ALL_FROM else None)
    return {run.id: _entry(run) for run in runs}


def _noted(entry: Entry, version: Version) -> Entry:
    """The entry with what people noted on the run. Its result may be newer than the version."""
    _, state, finished_at = entry.version.result
    noted = version._replace(state=state, finished_at=finished_at)
    return entry if entry.version == noted else replace(entry, version=noted)


def _entry(run: Run) -> Entry:
    stored, figures = run.curve, run.measured
    assert stored is not None
    return Entry(
        id=run.id,
        version=Version(run.id, run.state, run.finished_at, starred=False, archived=False, tags=(), number=0),
        name=run.name,
        state=run.state,
        label=_label(run, stored.n_tasks),
        target=run.target,
        weights=run.weights,
        drafter=run.drafter,
        draft_length=run.draft_length,
        n=run.n,
        budget_s=run.budget_s,
        temperature=run.temperature,
        top_p=run.top_p,
        prompt_mode=run.prompt_mode_used or run.prompt_mode,
        throughput=run.throughput,
        dataset=run.dataset.name,
        dataset_sha256=run.dataset.sha256,
        dataset_tasks=run.dataset.n_tasks,
        device=f"{run.device_label}, {ELSEWHERE}" if run.measured_elsewhere else run.device_label,
        created_at=run.created_at,
        n_tasks=stored.n_tasks,
        tasks=stored.tasks,
        curve=stored_curve(stored),
        first_finished_p50_s=figures.first_finished_p50_s,
        first_finished_p95_s=figures.first_finished_p95_s,
        ms_per_token=figures.ms_per_token_all,
        tokens_per_s=figures.tokens_per_s,
        mean_acceptance_length=figures.mean_acceptance_length,
        seconds_per_right=figures.seconds_per_right,
        peak_memory_bytes=figures.peak_memory_bytes,
        fingerprint=fingerprint(run),
        settings=setting_words(run),
        in_guest_tasks=figures.in_guest_tasks,
        in_guest_samples=figures.in_guest_samples,
        in_guest_passed=figures.in_guest_passed,
        clock_marks=figures.clock_marks,
    )


def _label(run: Run, n_tasks: int) -> str | None:
    if run.measured_elsewhere:
        return ELSEWHERE  # another machine measured its seconds
    if run.state is not RunState.FINISHED:
        return str(run.state)
    if run.throughput:
        return "throughput"  # tasks shared the engine, so their times do not compare
    missing = run.dataset.n_tasks - len(run.excluded) - n_tasks
    return f"{n_tasks} of {run.dataset.n_tasks} tasks" if missing > 0 else None
