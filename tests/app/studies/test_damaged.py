"""A file with one wrong value is refused in a sentence, or everything that shows the study still answers."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import BadInputError
from app.core.settings import MIN_BUDGET_S
from app.first_page import answer_cache
from app.studies import export, loading, service
from app.studies.pages import TABS
from tests.app.damage import DAMAGE, damaged, kinds

REFERENCE = Path(__file__).parents[3] / "docs" / "results" / "bass.json.gz"
EXAMPLES = 20
"""Damaged files that are tried; DAMAGE has more than a thousand places to go to."""


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    """The reference study with three tasks, two calibrations and one sample of each task that has eight."""
    whole = json.loads(gzip.decompress(REFERENCE.read_bytes()))
    common = [task["task_id"] for task in whole["arms"][0]["tasks"][:3]]
    for arm in whole["arms"]:
        arm["tasks"] = [task for task in arm["tasks"] if task["task_id"] in common]
        arm["calibrations"] = arm["calibrations"][:2]
    return whole


def everything_answers(world, study_id: object) -> None:
    """Loads every page and file that shows the study or one of its runs, or a list with it."""
    client = world.client
    run_ids = [arm["run_id"] for arm in client.get(f"/api/v1/studies/{study_id}").json["arms"]]
    one, other = run_ids[:2]
    pages = ["/", "/leaderboard?rows=all", "/studies", "/runs", f"/overlay/{one},{other}"]
    pages += [f"/studies/{study_id}?tab={tab}" for tab in TABS]
    pages += [f"/runs/{one}?tab={tab}" for tab in ("curve", "tasks", "failures", "timing", "config")]
    pages += [f"/overlay?runs={one}&runs={other}", "/api/v1/studies"]
    pages += ["/api/v1/leaderboard", f"/api/v1/runs/{one}", f"/api/v1/runs/{one}/samples"]
    pages += [f"/api/v1/runs/{one}/export?format={form}" for form in ("samples", "csv")]
    pages += [f"/api/v1/studies/{study_id}/export?format={form}" for form in export.FORMATS]
    for page in pages:
        with client.get(page) as answer:  # an open download keeps its place
            assert answer.status_code < 500, page
            assert b"annot be computed" not in answer.data, page


def check(world, data: bytes) -> None:
    refused = ""
    try:
        study_id = loading.load_study(world.context, data, "file.json")
    except BadInputError as error:
        refused = str(error)
    if refused:
        assert refused.startswith("file.json: ")
        assert "\n" not in refused
        assert len(refused) < 400, "a sentence, not the file"
    else:
        everything_answers(world, study_id)
        service.delete(world.context, study_id)


def test_one_wrong_value_is_refused_or_shown_and_never_a_fault(world, reference, monkeypatch):
    monkeypatch.setattr(answer_cache, "MIN_COMMON_TASKS", 1)  # so that the first page computes with the study
    dice = random.Random(1)
    places = kinds(reference)
    for path in dice.sample(places, EXAMPLES):
        value = dice.choice(DAMAGE)
        check(world, damaged(reference, path, value))


COMPUTED = ("target_parameters", "device_name", "device", "dtype", "cpu")


@pytest.mark.parametrize("key", COMPUTED)
@pytest.mark.parametrize("value", [[], {"a": 1}, 1.5, 10**400], ids=["list", "object", "float", "huge"])
def test_provenance_that_pages_compute_with_is_checked(world, reference, key, value):
    data = damaged(reference, ("arms", 0, "provenance", key), value)
    with pytest.raises(BadInputError, match=rf"arms\.0\.provenance(\.{key})? "):
        loading.load_study(world.context, data, "file.json")


def test_the_smallest_budget_has_a_curve(world):
    world.add_run("hasty", n=1, limit=3, budget_s=MIN_BUDGET_S)
    for page in ("/", "/?budget=5e-324", "/?budget=1e308", "/leaderboard?budget=5e-324", "/leaderboard?budget=1e308"):
        assert world.client.get(page).status_code == 200, page
    sent = world.client.post("/api/v1/runs", json={"target": "smollm2-135m", "budget_s": 5e-324})
    assert (sent.status_code, sent.json["errors"][0]["field"]) == (422, "budget_s")


@pytest.mark.parametrize("field", ["wall_s", "queue_s", "prefill_s", "capacity_s", "steal_s"])
def test_no_time_is_longer_than_any_run(world, reference, field):
    data = damaged(reference, ("arms", 0, "tasks", 0, field), 1e308)
    with pytest.raises(BadInputError, match=rf"arms\.0\.tasks\.0\.{field} is 1e\+308: give"):
        loading.load_study(world.context, data, "file.json")


def test_an_answer_that_cannot_be_computed_leaves_the_leaderboard(world, monkeypatch):
    world.add_study({"name": "a", "n": 1, "limit": 30}, {"name": "b", "n": 2, "limit": 30}, name="sound")
    monkeypatch.setattr("app.first_page.answer_cache.build_answer", lambda *_: 1 / 0)
    first = world.client.get("/")
    assert first.status_code == 200
    assert "The answer cannot be computed" in first.text
    assert ">a</a>" in world.client.get("/leaderboard").text


def test_a_study_measured_elsewhere_on_an_unknown_machine_is_not_resumed(world, reference):
    study_id = loading.load_study(
        world.context, json.dumps(reference | {"machine": {"cpu": "x"}}).encode(), "file.json"
    )
    answer = world.client.post(f"/api/v1/studies/{study_id}/resume")
    assert (answer.status_code, "was measured elsewhere" in answer.json["detail"]) == (409, True)
