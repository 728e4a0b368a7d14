"""Names that tell the runs of one chart apart, also where several have the same or one that begins alike."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence

from app.leaderboard.entries import Entry
from app.ui.display import short_model

ROOM = 23  # characters of a name that stand beside a curve
SHORT = 10


def _drafter(run: Entry) -> str:
    return "no drafter" if run.drafter == "none" else run.drafter


SETTINGS: tuple[Callable[[Entry], str], ...] = (
    lambda run: short_model(run.target),
    _drafter,
    lambda run: f"n={run.n}",
    lambda run: f"{run.budget_s:g} s",
    lambda run: f"T {run.temperature:g}",
    lambda run: run.draft_length,
    lambda run: run.prompt_mode,
    lambda run: "throughput" if run.throughput else "latency",
    lambda run: run.state,
)


def distinct(runs: Sequence[Entry]) -> dict[uuid.UUID, str]:
    """A label for each run, by its id: its name, or where that begins like another's, drafter and what differs.

    Runs of one configuration are told apart by fingerprint and time.
    """
    labels = {run.id: run.name for run in runs}
    for alike in _alike(runs, labels):
        differing = [read for read in SETTINGS if read is _drafter or len({read(run) for run in alike}) > 1]
        for run in alike:
            words = [*([run.name] if len(run.name) <= SHORT else []), *(read(run) for read in differing)]
            labels[run.id] = ", ".join(words)
    for alike in _alike(runs, labels):
        for run in alike:
            labels[run.id] = f"{run.fingerprint}, {labels[run.id]}"
    for alike in _alike(runs, labels):
        for run in alike:
            labels[run.id] = f"{run.created_at:%m-%d %H:%M:%S}, {run.name}"
    return labels


def _alike(runs: Sequence[Entry], labels: dict[uuid.UUID, str]) -> list[list[Entry]]:
    """The runs whose labels cannot be told apart by what is shown of them, together."""
    found: defaultdict[str, list[Entry]] = defaultdict(list)
    for run in runs:
        found[labels[run.id][:ROOM]].append(run)
    return [together for together in found.values() if len(together) > 1]
