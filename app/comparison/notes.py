"""What limits what the figures of an overlay say: sentences for pages and reports."""

from __future__ import annotations

from collections.abc import Sequence

from app.comparison.loading import Overlaid
from app.runs.models import Run
from app.web.ui.units import decimal

NOT_IN_TURN = (
    "The runs were not measured in turn, so the machine alone may have made some of them faster. An overlay of two of "
    "them tests whether that could explain their difference."
)
_DEVICE = ("device", "device_name", "dtype", "cpu")


def same_device(runs: Sequence[Run]) -> bool:
    """Whether timings of the runs can be compared: same device, dtype and CPU."""
    return all(run.provenance.get(key) == runs[0].provenance.get(key) for run in runs for key in _DEVICE)


def describe_caveats(found: Overlaid, not_in_turn: str = NOT_IN_TURN) -> list[str]:
    """Caveats on the figures of the overlay, each a sentence or two.

    `not_in_turn` says what it means for the times that the runs were not measured in turn.
    """
    said = [f"Left out: {error}." for error in found.left_out]
    named = list(zip(found.letters, found.runs, strict=True))
    common = len(found.task_ids)
    more = [f"{letter} {graded}" for letter, graded in zip(found.letters, found.graded, strict=True) if graded > common]
    if more:
        said.append(
            f"The runs graded different tasks. All figures are over the {common} that all of them have graded; "
            f"more were graded by: {', '.join(more)}."
        )
    if not same_device(found.runs):
        said.append("The runs used different devices or dtypes: only shares can be compared, not times.")
    elif not found.in_turn:
        said.append(not_in_turn)
    if together := [letter for letter, run in named if run.throughput]:
        said.append(
            f"Decoded for throughput: {', '.join(together)}. Tasks shared a batch, so each of their samples finished "
            "later."
        )
    if len({run.n for run in found.runs}) > 1:
        first, *others = (f"{letter} has {run.n}" for letter, run in named)
        counts = ", ".join((f"{first} samples per task", *others))
        said.append(f"{counts}: more samples raise Pass@All by chance alone.")
    return said


def describe_circumstances(found: Overlaid, machine_factor: float | None) -> list[str]:
    """Caveats on two runs: also by how much the machine alone could have changed the times, what disturbed the clock of
    each run, and how many of its verdicts a program could have forged."""
    if machine_factor is None:
        not_in_turn = (
            "The runs were not measured in turn, and how busy the machine was is not known of both: times may differ "
            "because of the machine alone."
        )
    else:
        not_in_turn = (
            "The runs were not measured in turn: the machine alone could explain times that differ by a factor of up "
            f"to {decimal(machine_factor)}."
        )
    said = describe_caveats(found, not_in_turn)
    for letter, run in zip(found.letters, found.runs, strict=True):
        said += [f"{letter}: {mark}" for mark in run.measured.clock_marks or ()]
        if guests := run.measured.in_guest_samples:
            said.append(
                f"{guests} verdicts of {letter} were given in-guest, where a program can forge its verdict; "
                f"{run.measured.in_guest_passed or 0} of them passed."
            )
    return said
