"""What the leaderboard keeps of every ended run in memory, so that a request reads only what has changed."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlalchemy.orm import Session

from app.leaderboard import repository
from app.leaderboard.repository import Version
from app.runs.configuration import fingerprint
from app.runs.models import Run
from app.states import RunState
from evaluation.metrics import BUDGET_GRID, Curve

MANY = 100  # from so many changed runs on, all are read: a query can name only so many


@dataclass(frozen=True)
class Entry:
    """A run on the board, whatever the budget: plain values, shared between threads.

    `label` says why a run is not ranked, None for one that is. `n_tasks` of `dataset_tasks` were graded. `budget_s` is
    the run's own budget, up to which its curve goes. Times in seconds; `ms_per_token` is over all samples.
    `in_guest_*` count verdicts that a program could have forged (app/runs/trust.py), None where nobody counted them.
    """

    id: uuid.UUID
    version: Version
    name: str
    state: RunState
    label: str | None
    target: str
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
    curve: Curve
    first_finished_p50_s: float | None
    first_finished_p95_s: float | None
    ms_per_token: float | None
    tokens_per_s: float | None
    mean_acceptance_length: float | None
    fingerprint: str
    in_guest_tasks: int | None
    in_guest_samples: int | None
    in_guest_passed: int | None

    @property
    def group(self) -> tuple[str, str]:
        """Only runs of the same dataset content and device may be ranked against each other."""
        return self.dataset_sha256, self.device

    @cached_property
    def first_counts(self) -> str:
        """Pass@First along the curve in whole tasks, for the slider: shorter than the shares and exact."""
        return self._counts(self.curve.pass_first)

    @cached_property
    def all_counts(self) -> str:
        """The same of Pass@All."""
        return self._counts(self.curve.pass_all)

    @cached_property
    def own_grid(self) -> str | None:
        """The curve's budgets where they are not the usual ones up to the run's own, which the page holds once."""
        usual = (*(b for b in BUDGET_GRID if b < self.budget_s), self.budget_s)
        return None if self.curve.budgets == usual else " ".join(map(str, self.curve.budgets))

    def _counts(self, shares: Sequence[float]) -> str:
        return " ".join(str(round(share * self.n_tasks)) for share in shares)


class Entries:
    """The entries of one process, read again where a run's version has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: list[Version] = []
        self._entries: list[Entry] = []

    def read(self, session: Session) -> list[Entry]:
        """Evaluation runs that have ended with something graded, newest first."""
        versions = repository.versions(session)
        with self._lock:
            if versions != self._versions:
                known = {entry.version: entry for entry in self._entries}
                changed = [version[0] for version in versions if version not in known]
                runs = repository.runs_with_curves(session, changed if len(changed) < MANY else None)
                read = {run.id: _entry(run) for run in runs}
                found = (read.get(version[0]) or known.get(version) for version in versions)
                self._entries = [entry for entry in found if entry]  # one may have been deleted in between
                self._versions = [entry.version for entry in self._entries]
            return self._entries


def _entry(run: Run) -> Entry:
    stored, figures = run.curve, run.measured
    assert stored is not None
    return Entry(
        id=run.id,
        version=(run.id, run.state, run.finished_at),
        name=run.name,
        state=run.state,
        label=_label(run, stored.n_tasks),
        target=run.target,
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
        device=run.device_label,
        created_at=run.created_at,
        n_tasks=stored.n_tasks,
        curve=Curve(tuple(stored.budgets), tuple(stored.pass_first), tuple(stored.pass_all)),
        first_finished_p50_s=figures.first_finished_p50_s,
        first_finished_p95_s=figures.first_finished_p95_s,
        ms_per_token=figures.ms_per_token_all,
        tokens_per_s=figures.tokens_per_s,
        mean_acceptance_length=figures.mean_acceptance_length,
        fingerprint=fingerprint(run),
        in_guest_tasks=figures.in_guest_tasks,
        in_guest_samples=figures.in_guest_samples,
        in_guest_passed=figures.in_guest_passed,
    )


def _label(run: Run, n_tasks: int) -> str | None:
    if run.state is not RunState.FINISHED:
        return str(run.state)
    if run.throughput:
        return "throughput"  # its times are those of an engine that tasks share
    missing = run.dataset.n_tasks - len(run.excluded) - n_tasks
    return f"{n_tasks} of {run.dataset.n_tasks} tasks" if missing > 0 else None
