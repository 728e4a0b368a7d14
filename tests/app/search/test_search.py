"""The search on its page, in REST and on the command line: results with marks, filters, and sentences for bad input."""

from __future__ import annotations

import html
import json
import re

import pytest
from click.testing import CliRunner

from app.cli.main import cli
from app.core.context import Context
from app.core.states import RunKind
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


def test_words_of_an_error_are_marked_in_it_beside_the_excerpt_of_the_program(world):
    world.add_run("failing", n=4, limit=8, skill=0, raw="    return needle\n")
    shown = page(world, q='needle "list index"', verdict="exception")
    assert "return <mark>needle</mark>" in shown
    assert "IndexError: <mark>list index</mark> out of range" in shown


def test_each_of_several_equal_samples_has_a_place_on_its_task_to_lead_to(world):
    run = world.add_run("alike", n=3, limit=1, skill=1, raw="    return needle\n")
    task = world.client.get(f"/runs/{run}/tasks/HumanEval/0").get_data(as_text=True)
    assert all(task.count(f'id="sample-{i}"') == 1 for i in range(3))


def test_what_a_model_wrote_stays_text_in_an_excerpt_and_only_places_are_marked(world):
    world.add_run("hostile", n=1, limit=1, raw=HOSTILE)
    shown = page(world, q="needle script")
    assert "<script>alert" not in shown
    assert "<b>" not in shown
    assert "\u202e" not in shown
    assert "&lt;mark&gt;<mark>needle</mark>&lt;/mark&gt;" in shown
    assert "&lt;b&gt;<mark>needle</mark>&lt;/b&gt;" in shown


def test_markup_in_the_query_stays_text(world):
    world.add_run("one", n=1, limit=1)
    for q, status in (('"><script>alert(1)</script>', 422), ("<img src=x>", 200), ("</title><b>x", 200)):
        shown = page(world, status, q=q)
        assert "<script>alert" not in shown
        assert "<img" not in shown
        assert shown.count("</title>") == 1


@pytest.mark.parametrize(
    ("query", "saying"),
    [
        ({"q": "->"}, "Text is '->': it holds no word, add one"),
        ({"q": '"open end'}, "missing closing quotation mark"),
        ({"q": "x" * 1_000_000}, f"shorten it to {LONGEST} characters"),
        ({"q": "needle", "verdict": "fine"}, "Verdict is “fine”: choose"),
        ({"q": "needle", "failure": "bad"}, "Failure is “bad”: choose"),
        ({"q": "needle", "cursor": "7"}, "Cursor is '7': give the `next` of a page"),
        ({"q": "needle\0"}, "'q' holds the character NUL: remove it"),
        ({"q": "needle", "run": "r" * 201}, "Run is “rr"),
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
    assert "Nothing found" in page(world, q="nowhere_at_all")
    assert "Nothing found" in page(world, run="no run has this name")
    assert world.client.get("/api/v1/search").status_code == 422


def test_more_results_are_a_page_further_and_the_address_keeps_the_query(world):
    world.add_run("many", n=4, limit=20, raw="    return needle\n")
    shown = page(world, q="needle", dataset="humaneval")
    assert shown.count('class="hit"') == 50
    more = html.unescape(re.search(r'<a class="button" href="(/search[^"]+)">More', shown)[1])
    assert "q=needle" in more
    assert "dataset=humaneval" in more
    rest = world.client.get(more).get_data(as_text=True)
    assert rest.count('class="hit"') == 30
    assert ">More</a>" not in rest


def test_rest_gives_excerpts_with_offsets_and_follows_its_cursor(world):
    run = world.add_run("nightly", n=2, limit=3, raw="    return needle[0]\n", skill=1)
    seen, cursor = [], None
    while True:
        answer = world.client.get("/api/v1/search", query_string={"q": "needle", "limit": 4, **(cursor or {})})
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


def test_a_run_that_is_deleted_while_its_samples_are_listed_leaves_an_empty_page(world):
    run = world.add_run("gone", n=1, limit=1, raw="needle")
    shown = page(world, q="needle")
    assert world.client.delete(f"/api/v1/runs/{run}").status_code == 204
    assert "Nothing found" in page(world, q="needle")
    assert world.client.get(re.search(r'href="(/runs/[^"#]+)#sample', shown)[1]).status_code == 404


def test_completions_and_baselines_are_not_found(world):
    for kind in (RunKind.COMPLETION, RunKind.BASELINE):
        world.add_run(f"a {kind}", n=1, limit=1, raw="needle", kind=kind)
    assert "Nothing found" in page(world, q="needle")


def test_a_run_leads_to_the_search(world):
    run = world.add_run("one", n=2, limit=2)
    assert f"/search?run={run}" in world.client.get(f"/runs/{run}?tab=failures").get_data(as_text=True)
    assert 'href="/search"' in world.client.get("/runs").get_data(as_text=True)


@pytest.fixture
def command(ctx: Context, monkeypatch):
    """Runs `bassline search` over the context's database."""
    monkeypatch.setattr("app.cli.common.make_context", lambda: ctx)
    return lambda *words: CliRunner().invoke(cli, ["search", *words])


def test_the_command_prints_samples_with_their_lines_and_writes_json(world, command, monkeypatch, tmp_path):
    monkeypatch.setattr("app.cli.common.make_context", lambda: world.context)
    world.add_run("nightly", n=1, limit=2, raw="    return needle[0]\x1b[31m\n", skill=1)
    done = command("needle[0]", "--limit", "1")
    assert done.exit_code == 0, done.output
    assert re.search(r"HumanEval/1 sample 0: .*nightly", done.output)
    assert "    | return needle[0]\\x1b[31m" in done.output
    cursor = re.search(r"--cursor (\S+)", done.output)[1]
    assert "HumanEval/0 sample 0" in command("needle[0]", "--cursor", cursor).output
    file = tmp_path / "found.json"
    assert command('"return needle"', "--json", str(file)).exit_code == 0
    assert len(json.loads(file.read_text())["samples"]) == 2
    assert "No sample found." in command("nowhere").output


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        ([":="], "holds no word"),
        ([], "q is empty: give words to search for, or a filter"),
        (["x" * 2000], "q is 'xxx"),
        (["a", "--verdict", "fine"], "'fine'"),
        (["a", "--cursor", "x"], "cursor is 'x'"),
    ],
)
def test_the_command_refuses_bad_input_with_code_2(command, words, saying):
    done = command(*words)
    assert done.exit_code == 2
    assert saying in done.output
    assert "Traceback" not in done.output


def test_only_runs_with_a_tag_are_found_where_one_is_asked_for(world):
    tagged = world.add_run("tagged", n=1, limit=1, raw="    return needle\n")
    world.add_run("other", n=1, limit=1, raw="    return needle\n")
    assert world.client.patch(f"/api/v1/runs/{tagged}", json={"add_tags": ["Nightly"]}).status_code == 200
    assert page(world, q="needle").count('class="hit"') == 2
    assert page(world, q="needle", tag="nightly").count('class="hit"') == 1
    assert "tagged" in page(world, q="needle", tag="nightly")
