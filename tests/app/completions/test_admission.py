"""A completion that could only wait until its budget is over is refused, with the time to come back."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert

from app.completions import deadlines, service
from app.completions.admission import (
    FinishedPrompt,
    OpenPrompts,
    estimate_first_answer_s,
    estimate_wait_s,
    predict_wait_s,
)
from app.completions.schemas import CompletionSpec
from app.core.db.types import get_utc_time
from app.core.errors import OverloadedError
from app.core.states import TaskState
from app.runs.models import RunTask
from app.samples.models import Sample
from app.site.factory import create_app

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ASKED = {"target": "smollm2-135m", "prompt": "def f(", "n": 1, "budget_s": 5}


def ended(wall_s: float, n: int, apart_s: float = 1.0, queue_s: float = 0.0) -> list[FinishedPrompt]:
    return [
        FinishedPrompt(queue_s, wall_s, NOW - dt.timedelta(seconds=apart_s * i), queue_s + wall_s) for i in range(n)
    ]


def test_one_at_a_time_the_wait_is_that_of_those_before():
    assert estimate_wait_s(4, 1, ended(2.0, 10, apart_s=2.0), NOW) == pytest.approx(8.0, rel=0.2)


def test_those_that_are_decoded_together_leave_sooner():
    assert estimate_wait_s(4, 4, ended(2.0, 3, apart_s=2.0), NOW) == pytest.approx(2.0)


def test_one_that_comes_now_waits_as_long_as_those_that_just_ended():
    assert estimate_wait_s(0, 8, ended(2.0, 5, queue_s=3.0), NOW) == 3.0
    assert estimate_wait_s(0, 8, ended(2.0, 5, apart_s=30.0, queue_s=3.0), NOW) == 0.0


def test_what_is_needed_is_the_time_to_the_first_finished_sample():
    cut_off = [FinishedPrompt(3.0, 2.0, NOW, None)] * 10
    assert estimate_first_answer_s([*ended(1.5, 3, queue_s=2.0), *cut_off]) == pytest.approx(1.5)
    assert estimate_first_answer_s(cut_off) == 0.0


def test_before_anything_is_known_a_batch_is_accepted_and_the_rest_waits_for_its_whole_budget():
    def predict(number: int, samples: int = 1, n_workers: int = 1) -> float:
        return predict_wait_s(OpenPrompts(number, number, number * samples, 5.0), 16, n_workers)

    assert [predict(number) for number in (15, 16, 32)] == [0.0, 5.0, 10.0]
    assert predict(5, samples=8) == 0.0
    assert predict(6, samples=8) == 5.0, "48 samples fill the batch"
    assert predict(16, n_workers=2) == 0.0


@pytest.fixture
def no_worker(ctx, monkeypatch):
    """A service that has never decoded anything, whose messages nobody reads."""
    monkeypatch.setattr(ctx, "settings", ctx.settings.model_copy(update={"completions_together": 4}))
    return ctx


def accepted(ctx, n_asked: int, **changes) -> int:
    """How many of some completions that come at once are accepted, each from a thread of its own."""

    def ask(i: int) -> bool:
        try:
            service.submit(ctx, CompletionSpec(**ASKED | {"prompt": f"prompt {i}", **changes}))
        except OverloadedError:
            return False
        return True

    with ThreadPoolExecutor(n_asked) as threads:
        return sum(threads.map(ask, range(n_asked)))


def test_of_many_at_once_the_first_ones_ever_fill_a_batch(no_worker):
    assert accepted(no_worker, 12) == 4


@given(
    waiting=st.integers(1, 100),
    decoding=st.integers(0, 16),
    wall_s=st.floats(0.0, 600.0),
    n=st.integers(3, 20),
    apart_s=st.floats(0.0, 60.0),
)
def test_the_wait_is_finite_and_grows_with_the_queue(waiting, decoding, wall_s, n, apart_s):
    done = ended(wall_s, n, apart_s)
    wait = estimate_wait_s(waiting, decoding, done, NOW)
    assert 0 <= wait <= estimate_wait_s(waiting + 1, decoding, done, NOW) < 1e6


@pytest.fixture
def crowded(ctx):
    """A service that needs 3 seconds for a completion, with one that decodes and three that wait."""
    ids = [service.submit(ctx, CompletionSpec(**ASKED | {"prompt": f"prompt {i}"})) for i in range(8)]
    with ctx.database.session() as session:
        for i, run_id in enumerate(ids[:5]):
            row = session.query(RunTask).filter_by(run_id=run_id).one()
            row.state = TaskState.DECODING if i == 4 else TaskState.FINISHED
            row.queue_s, row.wall_s, row.finished_at = 0.0, 3.0, get_utc_time() - dt.timedelta(seconds=3 * i)
            finished = {"finish_reason": "stop", "finished_s": 3.0}
            session.execute(insert(Sample), [{**deadlines._build_empty_sample(row, row.run, 0, 3.0), **finished}])
    return ctx


def test_one_too_many_is_refused_before_a_run_is_made(crowded):
    with pytest.raises(OverloadedError, match="smollm2-135m has 4 prompts to decode: one more waits about") as refused:
        service.submit(crowded, CompletionSpec(**ASKED))
    assert 4 <= refused.value.retry_after_s <= 10


def test_more_time_or_another_model_is_accepted(crowded):
    assert service.submit(crowded, CompletionSpec(**ASKED | {"budget_s": 60}))
    assert service.submit(crowded, CompletionSpec(**ASKED | {"target": "qwen2.5-coder-0.5b"}))


@pytest.mark.parametrize(
    ("path", "body"),
    [("/api/v1/complete", ASKED), ("/v1/completions", {"model": "smollm2-135m", "prompt": "def f(", "budget": 5})],
)
def test_a_client_is_told_when_to_come_again(crowded, path, body):
    answer = create_app(crowded).test_client().post(path, json=body)
    assert answer.status_code == 429
    assert 4 <= int(answer.headers["Retry-After"]) <= 10
    assert "ask again later, or with more time" in answer.get_data(as_text=True)
