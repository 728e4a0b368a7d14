"""A run's figures and curve, computed from its stored samples by evaluation/metrics."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Row
from sqlalchemy.orm import Session

from app.core.states import DECODED_TASK_STATES, PASSED, SANDBOX_ERROR, TaskState
from app.runs.caveats import compute_caveat_figures
from app.runs.clock import compute_clock, sum_decoding_s
from app.runs.models import Run, RunCurve, RunTask
from app.runs.repository import load_measured_tasks
from app.runs.results import Figures
from app.samples.models import FINISHED_REASONS, Sample
from evaluation import metrics
from evaluation.outcomes import PairedOutcomes, compute_pass_all, compute_pass_first

SELECTOR = "mean_logprob"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A run's figures, and its curve over the tasks with these ids."""

    figures: Figures
    curve: metrics.Curve
    task_ids: tuple[str, ...]


def compute_measurement(session: Session, run: Run) -> Measurement:
    """Computes figures and curve over the tasks that are finished now; this may take seconds, so hold no lock."""
    tasks = load_measured_tasks(session, run.id)
    found = compute_curve(run, tasks)
    # Without finish times there is no curve, so the run is neither on the leaderboard nor in an overlay.
    graded = _select_graded(tasks) if found.budgets else []
    return Measurement(compute_figures(run, tasks), found, tuple(task.task.task_id for task in graded))


def store_measurement(session: Session, run: Run, found: Measurement) -> None:
    """Writes figures and curve of the run."""
    run.figures = found.figures
    existing = session.get(RunCurve, run.id) or RunCurve(run_id=run.id)
    existing.n_tasks, existing.tasks = len(found.task_ids), hash_task_ids(found.task_ids)
    existing.budgets, existing.pass_first, existing.pass_all = map(
        list, (found.curve.budgets, found.curve.pass_first, found.curve.pass_all)
    )
    session.add(existing)


def hash_task_ids(task_ids: Iterable[str]) -> str:
    """A sha256 that is equal for equal sets of tasks."""
    return hashlib.sha256("\n".join(sorted(task_ids)).encode()).hexdigest()


def compute_figures(run: Run, tasks: Sequence[RunTask]) -> Figures:
    """Everything that tables and pages show of a run; None where there is nothing to measure.

    `tasks` are all tasks of the run. Shares are at the run's budget, selector mean_logprob, with Wilson's 95 %
    intervals. ms_per_token_first, _last and _all are means over tasks, over the finished samples (metrics.Latency).
    tokens_per_s is all tokens over all decoding time (clock.sum_decoding_s). mean_acceptance_length counts the token
    that every round adds besides the accepted ones. first_finished_* are quantiles over tasks of the time to the first
    finished sample. Shares leave out tasks with a sandbox fault (tasks_sandbox_error). Speed and clock cover
    all finished tasks (clock.py).
    """
    finished = [t for t in tasks if t.state == TaskState.FINISHED]
    graded = _select_graded(tasks) if run.graded else finished
    samples = [s for t in finished for s in t.samples]
    shares = _compute_shares(run, graded)
    return Figures(
        tasks=len(graded),
        tasks_selected=run.n_tasks,
        dataset_tasks=run.dataset.n_tasks,
        tasks_excluded=len(run.excluded),
        tasks_sandbox_error=sum(any(s.verdict == SANDBOX_ERROR for s in t.samples) for t in finished),
        tasks_failed=sum(t.state == TaskState.FAILED for t in tasks),
        tasks_decoded=sum(t.state in DECODED_TASK_STATES for t in tasks),
        tasks_left=len(tasks) - len(finished),
        samples=len(samples),
        samples_passed=sum(s.verdict == PASSED for s in samples),
        samples_finished=sum(map(is_finished, samples)),
        selector=SELECTOR,
        budget_s=run.budget_s,
        **shares,
        seconds_per_right=_compute_seconds_per_right(run, graded, shares["pass_first"]),
        peak_memory_bytes=max((t.peak_memory_bytes for t in finished if t.peak_memory_bytes), default=None),
        **_compute_speed_figures(run, finished),
        **_compute_clock_figures(run, finished),
        **_get_plain_comparison(run),
    )


def _compute_shares(run: Run, graded: Sequence[RunTask]) -> dict[str, Any]:
    """The shares of the `graded` tasks that are solved, and the caveats on them; no shares for a run without tests.

    Without finish times nothing is known at a budget: then there is only pass@1.
    """
    outcomes = _build_outcomes(graded) if run.graded else []
    is_timed = has_finish_times(graded)
    first = compute_pass_first(outcomes, run.budget_s) if outcomes and is_timed else None
    every = compute_pass_all(outcomes, run.budget_s) if outcomes and is_timed else None
    caveats = compute_caveat_figures(graded if outcomes else (), outcomes, run.budget_s)
    if not is_timed:
        caveats |= {name: None for name in caveats if name.startswith("pass_")}
    return {
        "pass_first": first,
        "pass_first_interval": _compute_interval(first, len(graded)),
        "pass_all": every,
        "pass_all_interval": _compute_interval(every, len(graded)),
        "ranking_loss": None if first is None or every is None else every - first,
        "pass_at_1": metrics.compute_pass_at_1(outcomes) if outcomes else None,
        **caveats,
    }


def _compute_speed_figures(run: Run, finished: Sequence[RunTask]) -> dict[str, Any]:
    """How fast the samples came, over all finished tasks."""
    samples = [s for t in finished for s in t.samples]
    rounds = sum(s.n_rounds for s in samples)
    latency = metrics.Latency(None, None, None)
    if samples:
        latency = PairedOutcomes.from_samples(_build_outcomes(finished)).compute_latency()
    ends_s = ([end for s in t.samples if (end := get_finish_time(s)) is not None] for t in finished)
    first_s = sorted(min(ends) for ends in ends_s if ends)
    overruns_s = [max(0.0, t.wall_s - run.budget_s) for t in finished if t.wall_s is not None]
    return {
        "ms_per_token_first": latency.first,
        "ms_per_token_last": latency.last,
        "ms_per_token_all": latency.all,
        "tokens": sum(s.n_tokens for s in samples),
        "tokens_per_s": _compute_tokens_per_s(run, count_tokens(finished)),
        "mean_acceptance_length": 1 + sum(s.n_accepted for s in samples) / rounds if rounds else None,
        "budget_overrun_max_s": max(overruns_s, default=None),
        "first_finished_p50_s": _compute_quantile(first_s, 0.5),
        "first_finished_p95_s": _compute_quantile(first_s, 0.95),
    }


def _compute_clock_figures(run: Run, finished: Sequence[RunTask]) -> dict[str, Any]:
    """What disturbed the run's clock; None where that is not known."""
    clock = compute_clock(finished, run.calibrations)
    return {
        "clock_drift": clock.drift,
        "tasks_disturbed": clock.disturbed if clock.tasks else None,
        "lost_to_others_max": clock.lost_max,
        "clock_marks": tuple(clock.marks) if clock.is_known or clock.marks else None,
    }


def _get_plain_comparison(run: Run) -> dict[str, Any]:
    """What --compare-plain found: a resumed run keeps it, since the tasks that were compared stay as they are."""
    names = ("plain_run", "speedup_over_plain", "speedup_tasks")
    return {name: value for name in names if (value := getattr(run.measured, name)) is not None}


def compute_curve(run: Run, tasks: Sequence[RunTask]) -> metrics.Curve:
    """The curve of a graded run up to its budget; without any point where nothing is graded or timed."""
    graded = _select_graded(tasks) if run.graded else []
    outcomes = _build_outcomes(graded) if has_finish_times(graded) else []
    return PairedOutcomes.from_samples(outcomes).build_curve(0, run.budget_s) if outcomes else metrics.Curve((), (), ())


def load_stored_curve(row: RunCurve) -> metrics.Curve:
    """The curve as `store_measurement` stored it."""
    return metrics.Curve(tuple(row.budgets), tuple(row.pass_first), tuple(row.pass_all))


def compute_speedup(
    run: Run, tasks: Mapping[RunTask, int], plain: Run, plain_tasks: Mapping[RunTask, int]
) -> float | None:
    """Tokens per second of a run as a multiple of plain decoding's, on the tasks that both have finished.

    The tasks of each come with their numbers of tokens. None where a run for throughput has finished tasks that the
    other has not finished: tasks of one batch share their time.
    """
    ours, theirs = ({t.task_pk: t for t in ts if t.state == TaskState.FINISHED} for ts in (tasks, plain_tasks))
    both = [key for key in ours if key in theirs]
    if any(r.throughput and len(both) < len(done) for r, done in ((run, ours), (plain, theirs))):
        return None
    fast = _compute_tokens_per_s(run, {ours[key]: tasks[ours[key]] for key in both})
    slow = _compute_tokens_per_s(plain, {theirs[key]: plain_tasks[theirs[key]] for key in both})
    return fast / slow if fast and slow else None


def count_tokens(tasks: Sequence[RunTask]) -> dict[RunTask, int]:
    """How many tokens the samples of each task have."""
    return {task: sum(sample.n_tokens for sample in task.samples) for task in tasks}


def _compute_interval(share: float | None, n_tasks: int) -> tuple[float, float] | None:
    return None if share is None else metrics.compute_wilson_interval(round(share * n_tasks), n_tasks)


def _compute_tokens_per_s(run: Run, tasks: Mapping[RunTask, int]) -> float | None:
    wall = _compute_busy_s(run, tasks)
    return sum(tasks.values()) / wall if wall else None


def _compute_seconds_per_right(run: Run, graded: Sequence[RunTask], pass_first: float | None) -> float | None:
    """None where nothing is right, or where another tool made the samples and did not say how long a task took."""
    right = round((pass_first or 0.0) * len(graded))
    return _compute_busy_s(run, graded) / right if right and all(t.wall_s is not None for t in graded) else None


def _compute_busy_s(run: Run, tasks: Iterable[RunTask]) -> float:
    return sum_decoding_s(((t.queued_at, t.queue_s, t.wall_s) for t in tasks), together=run.throughput)


def _select_graded(tasks: Sequence[RunTask]) -> list[RunTask]:
    """Finished tasks with a verdict on every sample that is about the model, and not about the sandbox."""
    return [
        t
        for t in tasks
        if t.state == TaskState.FINISHED and all(s.verdict not in (None, SANDBOX_ERROR) for s in t.samples)
    ]


def has_finish_times(tasks: Iterable[RunTask]) -> bool:
    """Whether every sample that finished says when. Otherwise, as for most imports, no figure at a budget is known."""
    return all(s.finished_s is not None for task in tasks for s in task.samples if is_finished(s))


def _build_outcomes(tasks: Sequence[RunTask]) -> list[metrics.SampleOutcome]:
    """The samples as the metrics see them."""
    return [build_outcome(task.task.task_id, sample) for task in tasks for sample in task.samples]


def build_outcome(task_id: str, sample: Sample) -> metrics.SampleOutcome:
    """A stored sample as the metrics see it."""
    return metrics.SampleOutcome(
        task_id=task_id,
        index=sample.index,
        finished_s=get_finish_time(sample),
        mean_logprob=sample.mean_logprob,
        passed=sample.verdict == PASSED,
        n_tokens=sample.n_tokens,
    )


class SampleEnd(Protocol):
    """How and when a sample ended, as far as it is known."""

    @property
    def finish_reason(self) -> str | None: ...  # noqa: D102

    @property
    def finished_s(self) -> float | None: ...  # noqa: D102


def get_finish_time(sample: SampleEnd | Row[*tuple[Any, ...]]) -> float | None:
    """When the sample finished; None if it was cut off by deadline or cancellation, or if nobody knows."""
    end: float | None = sample.finished_s
    return end if is_finished(sample) else None


def is_finished(sample: SampleEnd | Row[*tuple[Any, ...]]) -> bool:
    """Whether the sample was not cut off; when it ended may be unknown."""
    return sample.finish_reason in FINISHED_REASONS


def _compute_quantile(ordered: Sequence[float], q: float) -> float | None:
    """The smallest value with at least the share q at or below it."""
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if ordered else None
