"""What studies say, from the stored samples of their arms."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from sqlalchemy.orm import Session

from app.core.states import RunState, TaskState
from app.core.versioned_cache import VersionedCache
from app.runs.clock import sum_decoding_s
from app.runs.configuration import get_arm_options
from app.runs.models import Run, RunTask
from app.runs.outcomes import load_outcomes, read_tasks
from app.runs.provenance import get_target_parameters
from app.studies.engine_rows import EngineRow, build_engine_rows, is_speculative
from app.studies.models import Study
from app.studies.progress import compute_study_progress
from evaluation.studies.analysis import Analysis, analyse
from evaluation.studies.arms import Arm, ArmComparison

MAX_CACHED = 20  # analyses in memory
REST = 20  # a cached analysis stays valid for this many times its computing time: at most 5 % of one core
# The options of the drafter: arms of a pair may differ in them.
DRAFTING_OPTIONS = ("drafter", "draft_length", "acceptance")


@dataclass(frozen=True, slots=True)
class StudyAnalysis:
    """`statistics` covers the arms in `compared`; None while they have no graded task in common.

    Arms that a race has dropped, and arms that failed, are left out, so that the others compare over more tasks.
    """

    statistics: Analysis | None
    compared: tuple[str, ...]
    left_out: tuple[str, ...]
    engines: tuple[EngineRow, ...] = ()


class AnalysisCache:
    """The analyses of the studies looked at last, each computed again when an arm has finished a task since."""

    def __init__(self) -> None:
        # With each analysis until when (time.monotonic) it may be shown while the study works.
        self._kept: VersionedCache[uuid.UUID, tuple[StudyAnalysis, float]] = VersionedCache(MAX_CACHED)

    def get(self, session: Session, study: Study, *, allow_stale: bool = False) -> StudyAnalysis:
        """The analysis of the study as it is now.

        With `allow_stale`, a recently computed one will do: a page that follows a running study
        must not take the processor from what the study measures.
        """
        version = (
            tuple((run_id, arm.finished) for run_id, arm in compute_study_progress(session, study).items()),
            tuple((arm.run.state, arm.dropped_at) for arm in study.arms),
        )

        def compute() -> tuple[StudyAnalysis, float]:
            started = time.monotonic()
            analysis = analyse_study(session, study)
            ended = time.monotonic()
            return analysis, ended + REST * (ended - started)

        return self._kept.get(
            study.id, version, compute, still_good=lambda kept: allow_stale and time.monotonic() < kept[1]
        )[0]


def analyse_study(session: Session, study: Study) -> StudyAnalysis:
    """The study over the tasks that all arms have graded, without those that were dropped or have failed."""
    arms = {arm.name: arm.run for arm in study.arms if arm.dropped_at is None and arm.run.state is not RunState.FAILED}
    compared = compare_named_runs(session, arms, study.budget_s)
    left_out = tuple(arm.name for arm in study.arms if arm.name not in arms)
    statistics = None if compared is None else analyse(compared)
    return StudyAnalysis(statistics, tuple(arms), left_out, build_engine_rows(session, arms, statistics))


def compare_named_runs(session: Session, runs: Mapping[str, Run], end_s: float) -> ArmComparison | None:
    """Runs by their names as arms, over the tasks that all of them have graded; None without such a task."""
    if not runs:
        return None
    found = load_outcomes(session, list(runs.values()))
    if found.outcomes is None or len(found.places) < len(runs):
        return None
    return ArmComparison([build_arm(session, name, run) for name, run in runs.items()], found.outcomes, end_s)


def build_arm(session: Session, name: str, run: Run) -> Arm:
    """A run as the statistics of a study see it."""
    decoded = [task for task in read_tasks(session, run.id) if task.state == TaskState.FINISHED]
    busy = sum_decoding_s(((task.queued_at, task.queue_s, task.wall_s) for task in decoded), together=run.throughput)
    options = get_arm_options(run)
    return Arm(
        name=name,
        target=run.target,
        drafter=run.drafter,
        n=run.n,
        family=_dump_without(options, ("n",)),
        drafting_family=_dump_without(options, DRAFTING_OPTIONS),
        speculative=is_speculative(run),
        cost_s=busy / len(decoded) if decoded else 0.0,
        tokens_per_s=run.measured.tokens_per_s,
        mean_acceptance_length=run.measured.mean_acceptance_length,
        utilization=_compute_utilization(run, decoded, busy),
    )


def _compute_utilization(run: Run, decoded: Sequence[RunTask], busy: float) -> float | None:
    """The target's arithmetic as a share of what the device can do; None where a part of it was not recorded.

    Counts two operations per parameter and token, over all tokens the target computed, accepted or not; tokens
    from the prefix cache do not count. Neither attention nor the draft model is counted.
    """
    n_parameters = get_target_parameters(run.provenance)
    rates = [calibration.flops_per_s for calibration in run.calibrations if calibration.flops_per_s]
    tokens = [_count_target_tokens(task) for task in decoded]
    if not n_parameters or not rates or not busy or None in tokens:
        return None
    return 2 * n_parameters * sum(filter(None, tokens)) / (busy * median(rates))


def _count_target_tokens(task: RunTask) -> int | None:
    if task.n_verified is None or task.n_prompt_tokens is None:
        return None
    return task.n_verified + task.n_prompt_tokens - (task.cached_tokens or 0)


def _dump_without(options: dict[str, object], names: Sequence[str]) -> str:
    return json.dumps({key: value for key, value in options.items() if key not in names}, sort_keys=True)
