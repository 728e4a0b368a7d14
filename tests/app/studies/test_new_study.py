"""The form New study: shows the arms before anything runs, names every fault with its field, and keeps the values."""

from __future__ import annotations

import html
import re

import pytest

from app.studies.repository import list_studies


def text_of(answer) -> str:
    assert answer.status_code == 200, answer.get_data(as_text=True)[:400]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.get_data(as_text=True))))


@pytest.fixture
def world(world):
    world.app.config["WTF_CSRF_ENABLED"] = False
    return world


def test_the_form_shows_the_arms_that_its_values_make(world):
    page = text_of(world.client.get("/studies/new"))
    assert "5 arms × 40 tasks × 10 s: at most 33 min 20 s of decoding" in page
    values = {"target": "smollm2-135m", "drafter": "none sibling", "n": "1, 4, 8", "limit": "10", "budget_s": "2",
              "temperature": "0.2 0.8", "dataset": "humaneval", "preset": "", "preview": "true"}  # fmt: skip
    page = text_of(world.client.post("/studies/new", data=values))
    assert "12 arms × 10 tasks × 2 s: at most 4 min of decoding" in page
    assert "smollm2-135m, sibling, n = 8, temperature 0.8" in page
    assert not world.client.get("/api/v1/runs").json["runs"], "a preview starts nothing"


def test_a_preset_makes_its_arms_and_ignores_the_grid(world):
    values = {"preset": "samples", "target": "smollm2-135m", "drafter": "none", "n": "3", "limit": "4", "preview": "1"}
    page = text_of(world.client.post("/studies/new", data=values))
    assert "5 arms × 4 tasks" in page
    assert "smollm2-135m, sibling, n = 16" in page


def test_the_form_starts_a_study(world):
    values = {"preset": "bass", "target": "smollm2-135m", "limit": "4", "race": "true", "name": "mine", "budget_s": "3"}
    answer = world.client.post("/studies/new", data=values)
    assert answer.status_code == 303
    with world.context.database.read() as session:
        study = list_studies(session)[0]
        assert (study.name, study.race, study.budget_s, len(study.arms)) == ("mine", True, 3.0, 4)
        assert {run.n_tasks for run in study.runs} == {4}
    assert answer.location.endswith(str(study.id))


@pytest.mark.parametrize(
    ("values", "field", "said"),
    [
        ({"n": "1, many"}, "n", "Samples per task is 'many': give a whole number"),
        ({"n": "4"}, "", "one arm is not a study"),
        ({"target": ""}, "target", "Target model is empty: choose a model"),
        ({"target": "nosuchmodel"}, "target", "nosuchmodel"),
        (
            {"target": "/etc/passwd"},
            "target",
            "arm 1 (/etc/passwd, sibling, n = 1): model file '/etc/passwd' is not a .gguf file",
        ),
        ({"drafter": "telepathy!"}, "drafter", "Drafter is 'telepathy!': use none, ngram, sibling"),
        ({"budget_s": "soon"}, "budget_s", "Budget per task, seconds is 'soon': give a number"),
        ({"limit": "0"}, "limit", "First tasks only is '0'"),
        ({"limit": "2", "task_ids": "HumanEval/0"}, "task_ids", "exclude each other"),
        ({"task_ids": "HumanEval/999"}, "task_ids", "HumanEval/999"),
        ({"dataset": "nosuchset"}, "dataset", "nosuchset"),
        ({"preset": "unheard"}, "preset", "Question is 'unheard': use one of bass"),
        ({"n": " ".join(map(str, range(1, 40)))}, "", "32 arms at most"),
        ({"seed": "-1", "n": "x"}, "seed", "give 0 or more"),
        ({"seed": "-1", "n": "x"}, "n", "give a whole number"),
    ],
)
def test_a_refused_form_names_field_and_remedy_and_keeps_the_values(world, values, field, said):
    form = {"target": "smollm2-135m", "drafter": "sibling", "n": "1 4", "budget_s": "5", "name": "kept", **values}
    answer = world.client.post("/studies/new", data=form)
    page = html.unescape(answer.get_data(as_text=True))
    assert answer.status_code == 422
    assert said.lower() in page.lower()
    assert 'value="kept"' in page
    assert 'href="#f-arms"' not in page, "a fault of no single field stands in the notice"
    if field:
        assert f'href="#f-{field}"' in page
        assert f'id="e-{field}"' in page or f'id="f-{field}"' in page
    with world.context.database.read() as session:
        assert not list_studies(session)


def test_a_run_leads_to_a_study_with_its_configuration(world):
    run = world.add_run("mine", drafter="sibling", n=4)
    page = world.client.get(f"/runs/{run}").get_data(as_text=True)
    link = html.unescape(re.search(r'href="(/studies/new\?[^"]+)"', page)[1])
    page = text_of(world.client.get(link))
    assert "smollm2-135m, sibling, n = 4" in page
    assert "smollm2-135m, none, n = 4" in page


def test_a_form_without_csrf_token_is_refused(world):
    world.app.config["WTF_CSRF_ENABLED"] = True
    assert world.client.post("/studies/new", data={"preset": "bass", "target": "smollm2-135m"}).status_code == 400
