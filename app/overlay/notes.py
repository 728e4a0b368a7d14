"""How runs were measured, as far as it limits what their figures say: sentences for pages and reports."""

from __future__ import annotations

from collections.abc import Sequence

from app.runs.models import Run

_DEVICE = ("device", "device_name", "dtype", "cpu")


def same_device(runs: Sequence[Run]) -> bool:
    """Whether timings of the runs can be compared: same device, dtype and CPU."""
    return all(run.provenance.get(key) == runs[0].provenance.get(key) for run in runs for key in _DEVICE)


def measurement_notes(runs: Sequence[Run], letters: Sequence[str], not_in_turn: str | None) -> list[str]:
    """What keeps figures of the runs from being compared as they stand; `not_in_turn` where only the times differ."""
    said = []
    if not same_device(runs):
        said.append("The runs used different devices or dtypes: only shares can be compared, not times.")
    elif not_in_turn:
        said.append(not_in_turn)
    if together := [letter for letter, run in zip(letters, runs, strict=True) if run.throughput]:
        said.append(
            f"Decoded for throughput: {', '.join(together)}. Tasks shared a batch, so each of their samples finished "
            "later."
        )
    return said


def sample_count_note(runs: Sequence[Run], letters: Sequence[str]) -> list[str]:
    """A sentence where the runs have different numbers of samples per task."""
    if len({run.n for run in runs}) == 1:
        return []
    first, *others = (f"{letter} has {run.n}" for letter, run in zip(letters, runs, strict=True))
    counts = ", ".join((f"{first} samples per task", *others))
    return [f"{counts}: more samples raise Pass@All by chance alone."]


def trust_notes(runs: Sequence[Run], letters: Sequence[str]) -> list[str]:
    """What disturbed the clock of each run, and how many of its verdicts a program could have forged."""
    said = []
    for letter, run in zip(letters, runs, strict=True):
        said += [f"{letter}: {mark}" for mark in run.measured.clock_marks or ()]
        if guests := run.measured.in_guest_samples:
            said.append(
                f"{guests} verdicts of {letter} were given in-guest, where a program can forge its verdict; "
                f"{run.measured.in_guest_passed or 0} of them passed."
            )
    return said
