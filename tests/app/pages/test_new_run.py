"""The form for a new run: checked on the server, keeps what was typed, makes the rows the command line makes."""

from __future__ import annotations

import html
import re
import uuid

import pytest

from app.runs.models import Run
from app.runs.pages import LABELS
from app.runs.repository import get_run
from app.runs.schemas import RunSpec, TaskChoice
from app.runs.service import submit

GOOD = {
    "target": "smollm2-135m", "dataset": "humaneval", "limit": "2", "task_ids": "", "n": "3", "budget_s": "4",
    "max_tokens": "64", "temperature": "0.2", "top_p": "0.95", "seed": "7", "drafter": "ngram",
    "draft_length": "fixed:4", "acceptance": "coupled", "prompt_mode": "auto", "dtype": "auto",
    "device": "auto", "name": "", "time_limit_s": "",
}  # fmt: skip
CONFIGURED = [
    *RunSpec.model_fields.keys() - TaskChoice.model_fields - {"quiet_limit_s"},
    "quiet",
    "n_tasks",
    "command",
    "kind",
]


@pytest.fixture
def client(world):
    world.app.config["WTF_CSRF_ENABLED"] = False
    return world.client


def stored(world, run_id: uuid.UUID) -> Run:
    with world.context.database.read() as session:
        return get_run(session, run_id)


def test_the_form_and_the_command_line_make_the_same_run(world, client):
    answer = client.post("/runs/new", data=GOOD)
    assert answer.status_code == 303
    of_form = stored(world, uuid.UUID(answer.location.rsplit("/", 1)[1]))
    spec = RunSpec(
        target="smollm2-135m", limit=2, n=3, budget_s=4, max_tokens=64, seed=7, drafter="ngram", draft_length="fixed:4"
    )
    of_service = stored(world, submit(world.context, spec))
    assert {f: getattr(of_form, f) for f in CONFIGURED} == {f: getattr(of_service, f) for f in CONFIGURED}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", "many"), ("n", "0"), ("budget_s", "-1"), ("budget_s", ""), ("target", "no-such-model"), ("target", ""),
        ("task_ids", "HumanEval/999"), ("draft_length", "fixed:99"), ("drafter", ""), ("top_p", "2"), ("limit", "x"),
        ("dataset", "nothing"), ("prompt_mode", "loud"), ("seed", "1.5"),
    ],
)  # fmt: skip
def test_a_bad_field_is_named_and_nothing_typed_is_lost(client, field, value):
    answer = client.post("/runs/new", data={**GOOD, "name": "keep <me>", field: value})
    page = html.unescape(answer.get_data(as_text=True))
    assert answer.status_code == 422
    assert f'id="e-{field}"' in page
    assert 'value="keep <me>"' in page


def test_a_form_without_csrf_token_is_refused(world):
    assert world.client.post("/runs/new", data=GOOD).status_code == 400


def test_a_run_for_throughput_is_ticked_and_ticked_again(world, client):
    answer = client.post("/runs/new", data={**GOOD, "throughput": "true", "n": "x"})
    assert 'value="true" checked' in answer.get_data(as_text=True)
    answer = client.post("/runs/new", data={**GOOD, "throughput": "true"})
    run = stored(world, uuid.UUID(answer.location.rsplit("/", 1)[1]))
    assert run.throughput
    assert 'value="true" checked' in client.get(f"/runs/new?like={run.id}").get_data(as_text=True)
    config = client.get(f"/runs/{run.id}?tab=config").get_data(as_text=True)
    assert "<dt>Several tasks in one batch</dt><dd>yes</dd>" in config


def test_run_again_starts_from_the_earlier_configuration(world):
    run = world.add_run("one", target="qwen2.5-coder-0.5b", n=6, limit=3)
    page = world.client.get(f"/runs/new?like={run}").get_data(as_text=True)
    assert 'value="qwen2.5-coder-0.5b"' in page
    assert "HumanEval/0 HumanEval/1 HumanEval/2" in page


def test_a_completion_without_prompt_is_sent_back(client):
    answer = client.post("/complete", data={"prompt": "", "target": "smollm2-135m", "n": "2", "budget_s": "3"})
    assert answer.status_code == 422
    assert 'id="e-prompt"' in answer.get_data(as_text=True)


def test_a_completion_gets_an_address_and_keeps_its_bytes(client, world):
    prompt = "def f(x):\r\n    return x  \r\n"
    answer = client.post("/complete", data={"prompt": prompt, "target": "smollm2-135m", "n": "2", "budget_s": "3"})
    assert answer.status_code == 303
    page = client.get(answer.location).get_data(as_text=True)
    assert page.count("data-lane") == 2
    with world.context.database.read() as session:
        run = get_run(session, uuid.UUID(answer.location.rsplit("/", 1)[1]))
        assert run.tasks[0].task.prompt == prompt.replace("\r\n", "\n")


def errors_of(page: str) -> dict[str, str]:
    """The sentence at each field."""
    return {name: html.unescape(text) for name, text in re.findall(r'id="e-(\w+)">([^<]+)<', page)}


def test_faults_are_told_by_their_labels_and_once(client):
    faults = {"n": "many", "top_p": "9", "draft_length": "godput"}
    page = html.unescape(client.post("/runs/new", data={**GOOD, **faults}).get_data(as_text=True))
    told = errors_of(page)
    assert told.keys() == faults.keys()
    assert told["n"] == "Samples per task is 'many': give a whole number"
    assert told["top_p"] == "Top-p is '9': give 1 or less"
    assert "goodput" in told["draft_length"]
    assert all(page.count(sentence) == 1 for sentence in told.values())
    head = page.split('id="errors"')[1].split("<form")[0]
    assert re.findall(r'href="#f-(\w+)">([^<]+)<', head) == [
        (name, label) for name, label in LABELS.items() if name in told
    ], "in the order of the form"


def test_an_internal_name_never_stands_in_a_sentence_of_the_form(client):
    for field, value in (("budget_s", "0"), ("max_tokens", "99999"), ("time_limit_s", "-1"), ("temperature", "")):
        told = errors_of(client.post("/runs/new", data={**GOOD, field: value}).get_data(as_text=True))
        assert told.keys() == {field}
        assert "_" not in told[field]


def test_the_prompt_mode_of_a_completion_is_chosen_and_kept(client, world):
    form = {"prompt": "def f(x):\n", "target": "smollm2-135m", "n": "1", "budget_s": "3"}
    assert 'name="prompt_mode"' in client.get("/complete").get_data(as_text=True)
    answer = client.post("/complete", data={**form, "prompt_mode": "chat"})
    assert stored(world, uuid.UUID(answer.location.rsplit("/", 1)[1])).prompt_mode == "chat"
    assert '<option value="chat" selected>' in client.get(answer.location).get_data(as_text=True)
    assert "prompt_mode" in errors_of(
        client.post("/complete", data={**form, "prompt_mode": "x"}).get_data(as_text=True)
    )


@pytest.mark.parametrize(
    ("form", "field", "sentence"),
    [({"test": "assert f(1)"}, "entry_point", "Function under test is empty"), ({"target": "smolm2"}, "target", "")],
)
def test_a_completion_that_cannot_be_decoded_is_told_at_its_field(client, form, field, sentence):
    given = {"prompt": "x = 1", "target": "smollm2-135m", "n": "2", "budget_s": "3", **form}
    told = errors_of(client.post("/complete", data=given).get_data(as_text=True))
    assert told.keys() == {field}
    assert told[field].startswith(sentence)


def test_about_explains_what_the_form_says_it_explains(world):
    form, about = (world.client.get(path).get_data(as_text=True) for path in ("/runs/new", "/about"))
    assert "About</a> explains drafter, draft length and acceptance." in form
    assert all(f'id="{name}"' in about for name in ("drafter", "draft-length", "acceptance"))
