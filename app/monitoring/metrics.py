"""GET /api/v1/metrics for Prometheus, read from the database at each scrape.

All web processes return the same figures, because they read the same rows; counters in a process would differ.
Activity is a gauge over the last WINDOW_S seconds, so a scrape reads few rows however long the history is.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping

from flask import Blueprint, Response
from prometheus_client import CONTENT_TYPE_LATEST, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from app.core.db.types import get_utc_time
from app.core.states import OPEN_TASK_STATES, RunState, WorkStep
from app.monitoring.health import compute_longest_wait_s
from app.runs.models import Run, RunTask
from app.runs.policy import is_interactive
from app.samples.models import Sample
from app.web.http.operations import declare_operation
from app.web.http.request_context import get_session
from app.workers import service as workers
from evaluation.verdicts import Trust

bp = Blueprint("metrics", __name__, url_prefix="/api/v1")

WINDOW_S = 900
PLAIN_TEXT = "text/plain"
SUMMED = (Sample.n_drafted, Sample.n_accepted, Sample.n_tokens, Sample.n_rounds)


@bp.get("/metrics")
@declare_operation({200: PLAIN_TEXT})
def metrics() -> Response:
    """Figures of the service for Prometheus; docs/monitoring.md explains each."""
    return Response(generate_latest(_DatabaseCollector(get_session())), content_type=CONTENT_TYPE_LATEST)


class _DatabaseCollector(Collector):
    def __init__(self, reading: Session) -> None:
        self._session = reading

    def collect(self) -> Iterator[Metric]:
        """Called once per scrape."""
        now = get_utc_time()
        yield from _collect_backlog(self._session, now)
        yield from _collect_recent(self._session, now)


def _collect_backlog(session: Session, now: dt.datetime) -> Iterator[Metric]:
    runs = dict(session.execute(select(Run.state, func.count()).group_by(Run.state)).all())
    yield _build_gauge("bassline_runs", "runs by state", "state", {s: runs.get(s, 0) for s in RunState})
    tasks = dict(
        session.execute(
            select(RunTask.state, func.count()).where(RunTask.state.in_(OPEN_TASK_STATES)).group_by(RunTask.state)
        ).all()
    )
    yield _build_gauge("bassline_open_tasks", "tasks by state", "state", {s: tasks.get(s, 0) for s in OPEN_TASK_STATES})
    waits = {
        "prepare": compute_longest_wait_s(session, None, now),
        "decode": compute_longest_wait_s(session, WorkStep.DECODE, now),
        "grade": compute_longest_wait_s(session, WorkStep.GRADE, now),
    }
    yield _build_gauge("bassline_queue_age_seconds", "how long the longest waiting job has waited", "step", waits)
    alive = len(workers.find_alive_workers(session))
    yield GaugeMetricFamily("bassline_workers_alive", "worker processes heard of within a minute", value=alive)


def _collect_recent(session: Session, now: dt.datetime) -> Iterator[Metric]:
    """Figures of the tasks that ended within the window."""
    within = RunTask.finished_at >= now - dt.timedelta(seconds=WINDOW_S)
    tasks, rounds, decode_s = session.execute(
        select(
            func.count(), func.coalesce(func.sum(RunTask.n_rounds), 0), func.coalesce(func.sum(RunTask.wall_s), 0.0)
        ).where(within)
    ).one()
    # The budget of an interactive run begins when it is accepted.
    waited = case((is_interactive(), func.coalesce(RunTask.queue_s, 0.0)), else_=0.0)
    overrun = waited + RunTask.wall_s - Run.budget_s
    late, worst = session.execute(
        select(func.count(), func.coalesce(func.max(overrun), 0.0)).join(RunTask.run).where(within, overrun > 0)
    ).one()
    sums = session.execute(
        select(*(func.coalesce(func.sum(column), 0) for column in SUMMED)).join(Sample.run_task).where(within)
    ).one()
    drafted, accepted, tokens, sample_rounds = (int(total) for total in sums)
    verdicts = dict(
        session.execute(
            select(func.coalesce(Sample.verdict, "none"), func.count())
            .join(Sample.run_task)
            .where(within)
            .group_by(Sample.verdict)
        ).all()
    )
    yield GaugeMetricFamily("bassline_window_seconds", "the span of all bassline_recent_ figures", value=WINDOW_S)
    in_guest = session.scalar(
        select(func.count()).select_from(Sample).join(Sample.run_task).where(within, Sample.trust == Trust.IN_GUEST)
    )
    for name, text, value in (
        ("tasks", "tasks ended", tasks),
        ("rounds", "rounds of draft, verify and accept", rounds),
        ("decode_seconds", "seconds of decoding", decode_s),
        ("drafted_tokens", "tokens proposed by drafters", drafted),
        ("accepted_tokens", "of those, accepted", accepted),
        ("tokens", "tokens of samples", tokens),
        ("in_guest_samples", "samples whose verdict their program could have forged", in_guest),
        ("acceptance_length", "tokens a sample gains per round", 1 + accepted / sample_rounds if sample_rounds else 0),
        ("budget_overruns", "tasks that ended after their budget", late),
        ("budget_overrun_max_seconds", "the worst of them", worst),
    ):
        yield GaugeMetricFamily(f"bassline_recent_{name}", text, value=float(value or 0))
    yield _build_gauge("bassline_recent_samples", "samples by verdict, none for not graded", "verdict", verdicts)


def _build_gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([str(value)], float(number))
    return family
