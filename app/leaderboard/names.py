"""Distinct labels for the runs of one chart, also if several names are equal or begin alike."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence

from app.leaderboard.entries import Entry
from app.ui.display import short_model

ROOM = 23  # characters of a label beside a curve
SHORT = 10  # characters of a name that is kept in front of the differences


def _drafter(run: Entry) -> str:
    return "no drafter" if run.drafter == "none" else run.drafter


SETTINGS: tuple[Callable[[Entry], str], ...] = (
    lambda run: short_model(run.target),
    lambda run: run.weights,
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
    """A label for each run, by id: its name; if another begins alike, its drafter and the settings that differ.

    Runs with the same configuration get their fingerprint or their time in the label.
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
    """The groups of runs whose labels are equal in the characters that are shown."""
    groups: defaultdict[str, list[Entry]] = defaultdict(list)
    for run in runs:
        groups[labels[run.id][:ROOM]].append(run)
    return [group for group in groups.values() if len(group) > 1]
