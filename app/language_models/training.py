"""The charts of a drafter's training."""

from __future__ import annotations

from collections.abc import Sequence

from app.language_models.drafters import TrainingPoint
from app.ui.charts.parts import Chart
from app.ui.charts.training import Trace, training_chart
from app.ui.units import ordinal


def loss_chart(curve: Sequence[TrainingPoint]) -> Chart | None:
    """Loss and held-out divergence over the training steps; None without evaluations."""
    curve = _in_order(curve)
    traces = [
        Trace("training loss, whole drafts", [point.loss for point in curve]),
        Trace("held-out divergence, 1st token", [point.divergence for point in curve]),
    ]
    steps = [point.step for point in curve]
    return training_chart(steps, traces, "Loss over the training", "Nats", shares=False) if curve else None


def match_chart(curve: Sequence[TrainingPoint]) -> Chart | None:
    """Acceptance by position over the training steps; None without evaluations."""
    curve = _in_order(curve)
    traces = [
        Trace(f"{ordinal(i + 1)} token", [point.match[i] if i < len(point.match) else None for point in curve])
        for i in range(max((len(point.match) for point in curve), default=0))
    ]
    steps = [point.step for point in curve]
    return training_chart(steps, traces, "Acceptance over the training", "Accepted", shares=True) if traces else None


def _in_order(curve: Sequence[TrainingPoint]) -> list[TrainingPoint]:
    return sorted(curve, key=lambda point: point.step)
