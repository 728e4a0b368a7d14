"""What limits what the figures of an overlay say: sentences for pages and reports."""

from __future__ import annotations

from collections.abc import Sequence

from app.overlay.grouping import Group, unbalanced
from app.overlay.loading import Overlaid
from app.runs.models import Run
from app.runs.options import options_of
from app.runs.schemas import RunOptions

_DEVICE = ("device", "device_name", "dtype", "cpu")


def same_device(runs: Sequence[Run]) -> bool:
    """Whether timings of the runs can be compared: same device, dtype and CPU."""
    return all(run.provenance.get(key) == runs[0].provenance.get(key) for run in runs for key in _DEVICE)


def caveats(
    found: Overlaid, not_in_turn: str | None, groups: Sequence[Group] = (), field: str | None = None
) -> list[str]:
    """Caveats on the figures of the overlay, each a sentence or two. `field` is the option that groups its lines.

    `not_in_turn` says what that means for the times of runs that were not measured in turn, None for arms of one study.
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
    elif not_in_turn:
        said.append(not_in_turn)
    if together := [letter for letter, run in named if run.throughput]:
        said.append(
            f"Decoded for throughput: {', '.join(together)}. Tasks shared a batch, so each of their samples finished "
            "later."
        )
    if field is None and len({run.n for run in found.runs}) > 1:
        first, *others = (f"{letter} has {run.n}" for letter, run in named)
        counts = ", ".join((f"{first} samples per task", *others))
        said.append(f"{counts}: more samples raise Pass@All by chance alone.")
    if field is not None and (labels := unbalanced(found.runs, field, groups)):
        said.append(
            f"The groups do not hold the same values of {', '.join(labels)} equally often, so their means differ by "
            f"more than {options_of(RunOptions)[field].label.lower()}."
        )
    return said


def trust_notes(found: Overlaid) -> list[str]:
    """What disturbed the clock of each run, and how many of its verdicts a program could have forged."""
    said = []
    for letter, run in zip(found.letters, found.runs, strict=True):
        said += [f"{letter}: {mark}" for mark in run.measured.clock_marks or ()]
        if guests := run.measured.in_guest_samples:
            said.append(
                f"{guests} verdicts of {letter} were given in-guest, where a program can forge its verdict; "
                f"{run.measured.in_guest_passed or 0} of them passed."
            )
    return said
