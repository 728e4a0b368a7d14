"""The search on its page, in REST and on the command line: results with marks, and sentences for bad input."""

from __future__ import annotations

import html
import json
import re

import pytest
from click.testing import CliRunner

from app.cli.main import cli
from app.search.schemas import LONGEST

HOSTILE = "</pre><script>alert(1)</script><mark>needle</mark> \u202egnirts \x1b[31m {{ 7 * 7 }} & <b>needle</b>"


def page(world, status: int = 200, **query) -> str:
    answer = world.client.get("/search", query_string=query)
    assert answer.status_code == status, answer.get_data(as_text=True)[:400]
    return answer.get_data(as_text=True)


def text_of(shown: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", shown)))


def test_a_result_shows_run_task_sample_verdict_and_error_and_leads_to_the_sample(world):
    run = world.add_run("nightly", n=1, limit=1, skill=0, raw="    return needle[0]\n")
    shown = page(world, q="needle[0]")
    assert f'href="/runs/{run}/tasks/HumanEval/0#sample-0"' in shown
    assert f'href="/runs/{run}"' in shown
    assert "return <mark>needle[0]</mark>" in shown
    assert 'id="sample-0"' in world.client.get(f"/runs/{run}/tasks/HumanEval/0").get_data(as_text=True)


def test_each_of_several_equal_samples_has_a_place_on_its_task_to_lead_to(world):
    run = world.add_run("alike", n=3, limit=1, skill=1, raw="    return needle\n")
    task = world.client.get(f"/runs/{run}/tasks/HumanEval/0").get_data(as_text=True)
    assert all(task.count(f'id="sample-{i}"') == 1 for i in range(3))


def test_what_a_model_wrote_and_what_was_typed_stay_text(world):
    world.add_run("hostile", n=1, limit=1, raw=HOSTILE)
    shown = page(world, q="needle</mark> ")
    assert "<script>alert" not in shown
    assert "<b>" not in shown
    assert "\u202e" not in shown
    assert "&lt;mark&gt;<mark>needle&lt;/mark&gt; </mark>" in shown or "<mark>needle&lt;/mark&gt;" in shown
    for q in ('"><script>alert(1)</script>', "<img src=x>", "</title><b>x"):
        shown = page(world, q=q)
        assert "<script>alert" not in shown
        assert "<img" not in shown
        assert shown.count("</title>") == 1


@pytest.mark.parametrize(
    ("query", "saying"),
    [
        ({"q": "x" * 1_000_000}, f"at most {LONGEST} characters"),
        ({"q": "needle", "cursor": "7"}, "Cursor is '7': give the `next` of a page"),
        ({"q": "needle\0"}, "'q' holds the character NUL: remove it"),
        ({"q": "needle", "run": "nightly"}, "Run is 'nightly'"),
    ],
)
def test_a_query_that_cannot_be_answered_says_why(world, query, saying):
    shown = page(world, 422, **query)
    assert saying in text_of(shown)
    assert len(shown) < 30_000
    problem = world.client.get("/api/v1/search", query_string=query)
    assert problem.status_code == 422
    assert problem.mimetype == "application/problem+json"


def test_an_empty_form_explains_what_can_be_found_and_an_empty_result_says_so(world):
    world.add_run("one", n=1, limit=1)
    assert "What can be found" in page(world)
    assert "What can be found" in page(world, q="  ")
    assert "Nothing found" in page(world, q="nowhere_at_all")
    assert [world.client.get(f"/api/v1/search{q}").status_code for q in ("", "?q=%20")] == [422, 422]


def test_more_results_are_a_page_further_and_the_address_keeps_the_query(world):
    run = world.add_run("many", n=4, limit=20, raw="    return needle\n")
    world.add_run("other", n=4, limit=20, raw="    return needle\n")
    shown = page(world, q="needle", run=run)
    assert shown.count('class="hit"') == 50
    more = html.unescape(re.search(r'<a class="button" href="(/search[^"]+)">More', shown)[1])
    assert "q=needle" in more
    assert f"run={run}" in more
    rest = world.client.get(more).get_data(as_text=True)
    assert rest.count('class="hit"') == 30
    assert ">More</a>" not in rest


def test_rest_gives_excerpts_with_offsets_and_follows_its_cursor(world):
    run = world.add_run("nightly", n=2, limit=3, raw="    return needle[0]\n", skill=1)
    seen, cursor = [], None
    while True:
        answer = world.client.get("/api/v1/search", query_string={"q": "NEEDLE", "limit": 4, **(cursor or {})})
        assert answer.status_code == 200
        for sample in answer.json["samples"]:
            seen.append((sample["task_id"], sample["index"]))
            assert sample["run_id"] == str(run)
            (excerpt,) = sample["excerpts"]
            assert [excerpt["text"][a:b] for a, b in excerpt["marks"]] == ["needle"]
        if answer.json["next"] is None:
            break
        cursor = {"cursor": answer.json["next"]}
    assert sorted(seen) == [(f"HumanEval/{i}", j) for i in range(3) for j in range(2)]


def test_a_run_leads_to_the_search(world):
    run = world.add_run("one", n=2, limit=2)
    assert f"/search?run={run}" in world.client.get(f"/runs/{run}?tab=failures").get_data(as_text=True)
    assert 'href="/search"' in world.client.get("/runs").get_data(as_text=True)


@pytest.fixture
def command(world, monkeypatch):
    """Runs `bassline search` over the world's database."""
    monkeypatch.setattr("app.cli.common.make_context", lambda: world.context)
    return lambda *words: CliRunner().invoke(cli, ["search", *words])


def test_the_command_prints_samples_with_their_lines_and_writes_json(world, command, tmp_path):
    world.add_run("nightly", n=1, limit=2, raw="    return needle[0]\x1b[31m\n", skill=1)
    world.add_run("other", n=1, limit=1, raw="    return needle[0]\n", skill=1)
    done = command("needle[0]", "--limit", "1", "--run", "nightly")
    assert done.exit_code == 0, done.output
    assert re.search(r"HumanEval/1 sample 0: .*nightly", done.output)
    assert "    |     return needle[0]\\x1b[31m" in done.output
    cursor = re.search(r"--cursor (\S+)", done.output)[1]
    assert "HumanEval/0 sample 0" in command("needle[0]", "--cursor", cursor).output
    file = tmp_path / "found.json"
    assert command("return", "needle", "--json", str(file)).exit_code == 0
    assert len(json.loads(file.read_text())["samples"]) == 3
    assert "No sample found." in command("nowhere").output


@pytest.mark.parametrize(
    ("words", "saying"),
    [([], "q is '': give a text"), (["x" * 2000], "q is 'xxx"), (["a", "--cursor", "x"], "cursor is 'x'")],
)
def test_the_command_refuses_bad_input_with_code_2(command, words, saying):
    done = command(*words)
    assert done.exit_code == 2
    assert saying in done.output
    assert "Traceback" not in done.output
