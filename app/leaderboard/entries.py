"""The ended runs as the leaderboard keeps them in memory, so that a request reads only those that changed."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy.orm import Session

from app.core.states import RunState
from app.leaderboard import repository
from app.leaderboard.repository import Version
from app.runs.configuration import compute_fingerprint
from app.runs.figures import load_stored_curve
from app.runs.labels import list_setting_words, shorten_labels
from app.runs.models import Run
from app.runs.results import Figures
from evaluation.metrics import Curve

# Also in the name of the device, so that no chart mixes these runs with others.
MEASURED_ELSEWHERE = "measured elsewhere"


@dataclass(frozen=True)
class LeaderboardEntry:
    """A run on the leaderboard, independent of a budget: immutable values that threads share.

    Where `Run` has a column of the same name, that is its value unless a comment says otherwise.
    """

    id: uuid.UUID
    version: Version
    name: str
    policy: str
    state: RunState
    unranked_reason: str | None  # why the run is not ranked; None for one that is
    target: str
    weights: str
    drafter: str
    draft_length: str
    n: int
    budget_s: float  # its own, where its curve ends
    temperature: float
    top_p: float
    prompt_mode: str  # what `auto` came to
    throughput: bool
    dataset: str
    dataset_sha256: str
    dataset_tasks: int
    device: str  # as people know it
    toolchain: str  # what judged it, such as node 24.19.0; "" for Python
    created_at: dt.datetime
    n_tasks: int  # graded
    tasks: str  # a hash of the task ids, equal for runs over the same tasks
    curve: Curve
    figures: Figures
    fingerprint: str
    settings: tuple[str, ...]  # its options in words
    archived: bool

    @property
    def group(self) -> tuple[str, str, bool, str]:
        """Runs with equal groups compare: same dataset content, same tasks, same device, times measured alike."""
        return self.dataset_sha256, self.device, self.throughput, self.tasks


def label_entries(runs: Sequence[LeaderboardEntry]) -> dict[uuid.UUID, str]:
    """A distinct label for each run, by id."""
    labels = shorten_labels([run.name for run in runs], [run.settings for run in runs])
    return {run.id: label for run, label in zip(runs, labels, strict=True)}


class LeaderboardCache:
    """A cache of all entries. Reads a run again when its version has changed; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[LeaderboardEntry] = []

    def read(self, session: Session) -> list[LeaderboardEntry]:
        """The evaluation runs that have ended with at least one graded task, newest first; archived ones, too."""
        versions = repository.list_versions(session)
        with self._lock:
            if versions != [entry.version for entry in self._entries]:
                known = {entry.version: entry for entry in self._entries}
                changed = [version[0] for version in versions if version not in known]
                runs = repository.load_runs_with_curves(session, changed if known else None) if changed else []
                read = {run.id: _build_entry(run) for run in runs}
                found = (known.get(version) or read.get(version[0]) for version in versions)
                self._entries = [entry for entry in found if entry]  # one may be deleted
            return self._entries


def _build_entry(run: Run) -> LeaderboardEntry:
    stored = run.curve
    assert stored is not None
    columns = set(Run.__table__.columns.keys()) & {field.name for field in fields(LeaderboardEntry)}
    values: dict[str, Any] = {name: getattr(run, name) for name in columns}
    values |= {
        "version": (run.id, run.state, run.finished_at, run.archived),
        "unranked_reason": _find_unranked_reason(run, stored.n_tasks),
        "prompt_mode": run.prompt_mode_used or run.prompt_mode,
        "dataset": run.dataset.name,
        "dataset_sha256": run.dataset.sha256,
        "dataset_tasks": run.dataset.n_tasks,
        "device": f"{run.device_label}, {MEASURED_ELSEWHERE}" if run.measured_elsewhere else run.device_label,
        "toolchain": run.provenance.get("toolchain", ""),
        "n_tasks": stored.n_tasks,
        "tasks": stored.tasks,
        "curve": load_stored_curve(stored),
        "figures": run.measured,
        "fingerprint": compute_fingerprint(run),
        "settings": list_setting_words(run),
    }
    return LeaderboardEntry(**values)


def _find_unranked_reason(run: Run, n_tasks: int) -> str | None:
    if run.measured_elsewhere:
        return MEASURED_ELSEWHERE  # another machine measured its seconds
    if run.state is not RunState.FINISHED:
        return str(run.state)
    if run.throughput:
        return "throughput"  # tasks shared the engine, so their times do not compare
    missing = run.dataset.n_tasks - len(run.excluded) - n_tasks
    return f"{n_tasks} of {run.dataset.n_tasks} tasks" if missing > 0 else None
