"""A load test that the page starts: who may, where it cannot, what it runs; and the example that comes along."""

from __future__ import annotations

import importlib
import json

import pytest

from app.accounts.service import create_token
from app.capacity import measuring, reference
from app.capacity.measuring import LoadTests, Measurement
from app.context import make_context
from app.errors import BadInputError, ConflictError
from app.factory import create_app
from app.states import Scope
from tests.load_tests import load_test

NAMES = ("together", "alone")


@pytest.fixture
def example(tmp_path, monkeypatch):
    """An installation with an example of two load tests."""
    report = {
        "measured_at": "2026-11-24T20:00:00+00:00",
        "load_tests": [load_test(f"it, {arm}", arm=arm) for arm in NAMES],
    }
    (tmp_path / reference.FILE).write_text(json.dumps(report))
    monkeypatch.setattr(reference, "REFERENCE_FOLDERS", (tmp_path,))
    reference._report.cache_clear()
    yield
    reference._report.cache_clear()


def test_the_button_runs_a_command_that_the_benchmark_takes():
    load = importlib.import_module("benchmarks.load")
    bench, name, *words = measuring.command("smollm2-135m", 20.0)
    _, options = load._options(words)
    assert (bench, name) == ("bench", "load")
    assert (options.target, options.rates, options.n) == ("smollm2-135m", list(measuring.RATES), measuring.N)
    assert (options.budget, options.duration, len(options.arms)) == (measuring.BUDGET_S, 20.0, measuring.ARMS)


def test_the_stack_refuses_with_the_remedy(ctx):
    settings = ctx.settings.model_copy(update={"broker_url": "redis://nowhere:1/0"})
    with pytest.raises(ConflictError, match="run the command on the machine of a worker"):
        LoadTests().start(make_context(settings), "smollm2-135m", "20")


@pytest.mark.parametrize(
    ("target", "window", "field"), [("/etc", "20", "target"), ("smollm2-135m", "86400", "duration")]
)
def test_only_offered_models_and_lengths_are_started(ctx, target, window, field):
    with pytest.raises(BadInputError) as refused:
        LoadTests().start(ctx, target, window)
    assert refused.value.field == field
    assert not ctx.exclusive.what


def test_only_an_admin_may_take_the_machine(ctx):
    ctx.settings = ctx.settings.model_copy(update={"require_tokens": True})
    client = create_app(ctx).test_client()
    token = create_token(ctx, "submitter", Scope.SUBMIT)
    headers = {"Authorization": f"Bearer {token}"}
    page = client.get("/capacity", headers=headers).text
    assert "only an administrator may start one" in page
    assert "Start the load test" not in page


def test_time_left_comes_from_the_command_once_it_measures_rates():
    one = Measurement(
        "m", 20.0, log="stored: nothing\ntogether at 0.5/s: 3 of 10 sent, 1 settled; about 93 s of windows left"
    )
    one.started = 0.0
    assert (one.left_s, one.step) == (93.0, "together at 0.5/s: 3 of 10 sent, 1 settled")
    assert 0 < one.done < 1


def test_a_load_test_that_has_not_begun_is_cancelled_at_once(ctx):
    tests = LoadTests()
    tests.start(ctx, "smollm2-135m", "20")
    tests.cancel(ctx)
    assert tests.last.ended
    assert not ctx.exclusive.what


@pytest.mark.usefixtures("example")
def test_the_example_is_stored_once_as_measured_elsewhere_at_its_time(ctx):
    assert reference.reference_to_load(ctx)
    first = reference.load_reference(ctx)
    assert reference.load_reference(ctx) == first
    assert not reference.reference_to_load(ctx)
    found = create_app(ctx).test_client().get("/api/v1/capacity").json["load_tests"]
    assert sorted(one["name"] for one in found) == ["it, alone", "it, together"]
    assert {one["created_at"][:16] for one in found} == {"2026-11-24T20:00"}
    assert all(one["settings"]["measured_elsewhere"] for one in found)


def test_the_packaged_example_is_a_load_test(ctx):
    assert len(reference.load_reference(ctx)) == len(NAMES)
