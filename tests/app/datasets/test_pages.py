"""Datasets are added on the page, with errors that name line and field; models say what is cached."""

from __future__ import annotations

import html
import io
import json
import re
import uuid

import pytest

from app.datasets import service
from app.datasets.models import DatasetCheck
from app.web.http.limits import UPLOAD_BYTES
from decoding.models import fetch

TASK = {
    "task_id": "mine/0", "prompt": 'def add(a, b):\n    """Sum."""\n', "entry_point": "add",
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n", "canonical_solution": "    return a + b\n",
}  # fmt: skip


@pytest.fixture
def client(world):
    world.app.config["WTF_CSRF_ENABLED"] = False
    return world.client


def send(client, rows, name="", file="tasks.jsonl"):
    content = "\n".join(json.dumps(row) for row in rows).encode()
    return client.post("/datasets", data={"file": (io.BytesIO(content), file), "name": name})


def test_an_uploaded_file_becomes_a_dataset_that_a_run_can_name(client):
    answer = send(client, [TASK], name="mine")
    assert answer.status_code == 303
    assert "mine/0" in client.get(answer.location).get_data(as_text=True)
    assert ">mine</option>" in client.get("/runs/new").get_data(as_text=True)
    assert send(client, [TASK]).status_code == 303
    assert ">tasks<" in client.get("/datasets").get_data(as_text=True)


@pytest.mark.parametrize(
    ("rows", "name", "said"),
    [
        ([TASK, {**TASK, "task_id": "mine/1", "test": "assert ("}], "mine", "line 2, field test: does not compile"),
        ([{key: TASK[key] for key in TASK if key != "prompt"}], "mine", "line 1, field prompt: is missing"),
        ([TASK], "humaneval", "is the name of a built-in dataset"),
        ([], "mine", "holds no tasks"),
    ],
)
def test_a_file_at_fault_is_answered_with_line_and_field_and_the_name_is_kept(client, rows, name, said):
    answer = send(client, rows, name)
    page = html.unescape(answer.get_data(as_text=True))
    assert answer.status_code == 422
    assert page.count(said) == 1
    assert f'value="{name}"' in page


def test_a_file_keeps_its_name_at_the_beginning_of_a_sentence(client):
    page = html.unescape(send(client, [], "mine", file="bad.jsonl").get_data(as_text=True))
    assert "bad.jsonl holds no tasks" in page
    assert "Bad.jsonl" not in page


def test_a_dataset_says_which_canonical_solutions_fail_or_that_none_was_run(world, client):
    address = send(client, [TASK, {**TASK, "task_id": "mine/1"}], "mine").location
    rest = f"/api/v1{address}"
    assert "The canonical solutions have not been run yet" in client.get(address).text
    assert client.get(rest).json["checks"] == []
    dataset_id = address.rsplit("/", 1)[-1]
    with world.context.database.session() as session:
        session.add(DatasetCheck(dataset_id=uuid.UUID(dataset_id), sandbox="bwrap, Python 3.11", failed=["mine/1"]))
    page = " ".join(html.unescape(client.get(address).text).split())
    assert "1 of 2 tasks fail with their own canonical solution (sandbox bwrap, Python 3.11)" in page
    assert "have not been run yet" not in page
    (check,) = client.get(rest).json["checks"]
    assert (check["sandbox"], check["failed"]) == ("bwrap, Python 3.11", ["mine/1"])


def test_no_file_is_a_fault_of_the_field(client):
    page = client.post("/datasets", data={"name": "mine"}).get_data(as_text=True)
    assert "File is missing: choose a .jsonl or .jsonl.gz file" in page


@pytest.mark.parametrize("path", ["/datasets", "/runs/new"])
def test_a_body_that_is_too_long_is_refused_before_the_csrf_check_reads_it(world, path):
    form = {"CONTENT_LENGTH": str(UPLOAD_BYTES + 1), "CONTENT_TYPE": "application/x-www-form-urlencoded"}
    assert world.client.post(path, environ_overrides=form).status_code == 413


def test_models_say_whether_they_are_cached(world, tmp_path, monkeypatch):
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    page = world.client.get("/models").get_data(as_text=True)
    assert "0 models ready, 0 MB used" in " ".join(page.split())
    assert "not cached" in page
    begun = tmp_path / "cache" / "partial" / "smollm2-135m"
    begun.mkdir(parents=True)
    (begun / "model.gguf").write_bytes(b"x" * 3_000_000)
    page = world.client.get("/models").get_data(as_text=True)
    row = re.search(r"smollm2-135m.*?</tr>", page, re.DOTALL)[0]
    assert "partly downloaded" in row
    assert "3 MB" in row


@pytest.mark.model
def test_a_cached_model_is_ready_and_in_memory_where_a_worker_holds_it(world):
    info = fetch.find_cached("qwen2.5-coder-0.5b")
    if info is None:
        pytest.skip("qwen2.5-coder-0.5b is not in the cache")
    row = re.compile(r"qwen2\.5-coder-0\.5b.*?</tr>", re.DOTALL)
    assert ">ready<" in row.search(world.client.get("/models").get_data(as_text=True))[0]
    world.add_worker()
    assert ">in memory<" in row.search(world.client.get("/models").get_data(as_text=True))[0]


SOURCE = {
    "file": "shop/cart.py", "line": 12, "cases": 40, "mutation_score": 0.65, "weak": True, "commit": "0123abc",
    "survivors": ["line 14: <constant>"],
}  # fmt: skip


def test_tasks_from_code_show_their_place_cases_and_mutation_score(client):
    place = send(client, [{**TASK, "source": SOURCE}], name="mine").location
    page = client.get(place).get_data(as_text=True)
    assert "shop/cart.py:12" in page
    assert "65 % weak" in page
    task = client.get(f"{place}?task=mine/0").get_data(as_text=True)
    assert "0123abc" in task
    assert "line 14: &lt;constant&gt;" in task


@pytest.mark.parametrize("source", [{}, {"file": "a.py"}, {**SOURCE, "line": "x"}, {**SOURCE, "file": None}])
def test_a_source_of_another_form_does_not_break_the_page(client, source):
    place = send(client, [{**TASK, "source": source}], name="mine").location
    assert client.get(place).status_code == 200
    assert client.get(f"{place}?task=mine/0").status_code == 200


@pytest.mark.parametrize(("coverage", "noun"), [(None, "task"), ({}, "function")])
def test_what_was_left_out_is_a_function_only_where_the_dataset_was_made_from_code(client, world, coverage, noun):
    row = {"file": "", "function": "t/1", "line": 0, "reason": "is too long", "detail": ""}
    data = (json.dumps({**TASK, "task_id": "mine/0"}) + "\n").encode()
    stored = service.import_bytes(world.context, data, "mine", "mine.jsonl", [row], coverage)
    page = client.get(f"/datasets/{stored.id}/left-out").get_data(as_text=True)
    assert f"<h1>{noun.capitalize()}s left out</h1><p>1 {noun} was not stored" in page
