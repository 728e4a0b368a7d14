"""Overlays, matrices and comparisons as the documents of app/overlay/documents.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from app.overlay.decision import Decision
from app.overlay.documents import (
    ComparedRun,
    ComparisonDocument,
    Conclusion,
    LineDifference,
    LineDocument,
    LineShare,
    MatrixCell,
    MatrixDocument,
    MatrixRow,
    OverlaidRun,
    OverlayDocument,
    PairedDifference,
)
from app.overlay.lines import Line, Share
from app.overlay.loading import Overlaid
from app.overlay.matrix import Matrix
from app.overlay.pair import RunComparison
from app.overlay.presentation import LineCurves
from evaluation.metrics import Curve


def overlay(
    found: Overlaid,
    lines: Sequence[Line],
    curves: Sequence[LineCurves],
    budget_s: float,
    group: str | None,
    *,
    in_turn: bool,
) -> OverlayDocument:
    """The lines at the budget, each with its curve, which has a point at the budget."""
    return OverlayDocument(
        dataset=found.runs[0].dataset.name,
        budget_s=budget_s,
        longest_s=found.longest_s,
        group=group,
        tasks=list(found.task_ids),
        measured_in_turn=in_turn,
        runs=_runs(found),
        lines=[
            LineDocument(
                key=line.group.key,
                label=line.group.label,
                runs=[found.runs[place].id for place in line.group.members],
                pass_first=_share(line.first),
                pass_all=_share(line.every),
                **_curve(line_curves.curve, budget_s),
            )
            for line, line_curves in zip(lines, curves, strict=True)
        ],
    )


def _curve(curve: Curve, budget_s: float) -> dict[str, list[float]]:
    budgets = sorted({*curve.budgets, budget_s})
    first, every = zip(*map(curve.at, budgets), strict=True)
    return {"budgets": budgets, "curve_first": list(first), "curve_all": list(every)}


def matrix(found: Overlaid, made: Matrix, budget_s: float) -> MatrixDocument:
    """The rows that pass the filters."""
    return MatrixDocument(
        dataset=found.runs[0].dataset.name,
        budget_s=budget_s,
        runs=_runs(found),
        tasks_total=made.total,
        rows=[
            MatrixRow(task_id=row.task_id, cells=[MatrixCell(**asdict(cell)) for cell in row.cells])
            for row in made.rows
        ],
    )


def comparison(found: RunComparison, decision: Decision) -> ComparisonDocument:
    """Two runs, as `GET /compare` and `bassline runs compare --json` show them."""
    return ComparisonDocument(
        reference=ComparedRun(id=found.baseline.id, name=found.baseline.name),
        other=ComparedRun(id=found.other.id, name=found.other.name),
        budget_s=found.budget_s,
        pass_first=PairedDifference(**asdict(found.first), withheld=found.withheld_first),
        pass_all=PairedDifference(**asdict(found.every), withheld=found.withheld_every),
        speed=found.speed,
        measured_in_turn=found.in_turn,
        time_bound=found.time_bound,
        withheld=found.withheld_first or found.withheld_every,
        machine_factor=found.machine_factor,
        changed=found.changed,
        conclusion=Conclusion(**asdict(decision)),
    )


def _runs(found: Overlaid) -> list[OverlaidRun]:
    return [
        OverlaidRun(id=run.id, name=run.name, letter=letter, budget_s=run.budget_s, tasks_graded=graded)
        for run, letter, graded in zip(found.runs, found.letters, found.graded, strict=True)
    ]


def _share(share: Share) -> LineShare:
    difference = LineDifference(**asdict(share.difference)) if share.difference else None
    return LineShare(share=share.value, low=share.low, high=share.high, spread=share.spread, difference=difference)
