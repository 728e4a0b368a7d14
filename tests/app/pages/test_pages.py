"""Every page answers, in every state a run can be in, and says what to do next where there is nothing to show."""

from __future__ import annotations

import html
import re

import pytest

from app.completions.schemas import CompletionSpec
from app.completions.service import submit
from app.core.states import RunState
from app.leaderboard.columns import COLUMNS
from app.runs.repository import load_tasks_with_samples

HEADINGS = {
    "/": "Nothing has been measured yet",
    "/studies": "Studies",
    "/studies/new": "New study",
    "/runs": "Runs",
    "/runs/new": "New run",
    "/complete": "Completion",
    "/datasets": "Datasets",
    "/models": "Models",
    "/workers": "Workers",
    "/jobs": "Jobs",
    "/tokens": "Tokens",
    "/about": "About these figures",
}
NOWHERE = "01900000-0000-7000-8000-000000000000"
TABS = {  # what each shows of decoded tasks, and before any
    "curve": ("Pass against the budget", "No figures"),
    "tasks": ("passed at", "HumanEval/0"),
    "failures": ("Samples that did not pass", "No failures"),
    "timing": ("Seconds per task by step", "No timings"),
    "config": ("bassline eval --target", "bassline eval --target"),
}
STATES = {
    RunState.QUEUED: {"done": 0},
    RunState.RUNNING: {"done": 5},
    RunState.FINISHED: {},
    RunState.INTERRUPTED: {"done": 5},
    RunState.CANCELLED: {"done": 5},
    RunState.FAILED: {"done": 0},
}


def text_of(answer) -> str:
    assert answer.status_code == 200, answer.get_data(as_text=True)[:400]
    return html.unescape(re.sub(r"<[^>]+>", " ", answer.get_data(as_text=True)))


def test_the_first_page_says_what_this_is_and_how_to_begin(world):
    page = text_of(world.client.get("/"))
    for words in ("measures how often a code model answers correctly", "Try my code", "Compare models"):
        assert words in page


@pytest.mark.parametrize("path", HEADINGS)
def test_a_fresh_installation_shows_every_page(world, path):
    answer = world.client.get(path)
    assert answer.status_code == 200
    assert f"<h1>{HEADINGS[path]}</h1>" in answer.get_data(as_text=True)


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/", "Load the reference studies"),
        ("/", "first run of two minutes"),
        ("/runs", "New run"),
        ("/workers", "bassline serve"),
        ("/jobs", "bassline jobs list"),
        ("/datasets", "bassline datasets import"),
    ],
)
def test_an_empty_page_says_how_to_fill_it(world, path, advice):
    assert advice in text_of(world.client.get(path))


@pytest.mark.parametrize("state", STATES)
def test_a_run_shows_every_tab_in_every_state(world, state):
    run = world.add_run("one", state=state, limit=8, **STATES[state])
    for tab, (with_tasks, without) in TABS.items():
        page = world.client.get(f"/runs/{run}?tab={tab}").get_data(as_text=True)
        assert f'tab={tab}" aria-current="page"' in page or tab == "curve"
        assert (without if STATES[state].get("done") == 0 else with_tasks) in page


@pytest.mark.parametrize(
    ("state", "saying"),
    [
        (RunState.QUEUED, "Waiting for a worker"),
        (RunState.RUNNING, "5 of 8 tasks decoded"),
        (RunState.INTERRUPTED, "Interrupted: 5 of 8 tasks were decoded"),
        (RunState.CANCELLED, "Cancelled: 5 of 8 tasks were decoded"),
        (RunState.FAILED, "no sandbox on this machine: install bubblewrap"),
    ],
)
def test_a_run_says_what_became_of_it(world, state, saying):
    run = world.add_run("one", state=state, limit=8, **STATES[state])
    assert saying in re.sub(r"\s+", " ", text_of(world.client.get(f"/runs/{run}")))


def test_an_open_run_is_followed_live_and_an_ended_one_is_not(world):
    in_progress = world.client.get(f"/runs/{world.add_run('one', state=RunState.RUNNING, done=2)}").get_data(
        as_text=True
    )
    ended = world.client.get(f"/runs/{world.add_run('two')}").get_data(as_text=True)
    assert "js/live.js" in in_progress
    assert "data-events" in in_progress
    assert "js/live.js" not in ended
    assert "data-events" not in ended


def test_a_run_without_tests_shows_no_sample_as_passed(world):
    ungraded = world.add_run("ungraded", graded=False)
    assert "passed at" not in world.client.get(f"/runs/{ungraded}?tab=tasks").get_data(as_text=True)


def test_a_task_shows_the_prompt_all_samples_and_why_they_failed(world):
    run = world.add_run("one", n=3, skill=0.0)
    page = text_of(world.client.get(f"/runs/{run}/tasks/HumanEval/0"))
    assert "def has_close_elements" in page
    with world.context.database.read() as session:
        details = [s.verdict_detail for s in load_tasks_with_samples(session, run)[0].samples]
    assert all(f"Sample {i}" in page for i in range(3))
    assert any(details)
    assert all(detail in page for detail in details if detail)
    assert "Against the clock" in page
    assert "HumanEval/1" in page


def test_every_failure_is_two_clicks_from_the_run(world):
    run = world.add_run("one", n=2, skill=0.0)
    page = world.client.get(f"/runs/{run}").get_data(as_text=True)
    assert f"/runs/{run}?tab=failures" in page
    failures = world.client.get(f"/runs/{run}?tab=failures").get_data(as_text=True)
    assert f"/runs/{run}/tasks/HumanEval/0" in failures


def test_the_tasks_tab_letters_the_squares_and_marks_the_chosen_sample(world):
    run = world.add_run("one", n=4)
    page = world.client.get(f"/runs/{run}?tab=tasks").get_data(as_text=True)
    assert len(re.findall(r'<ol class="squares">', page)) == 12
    assert len(re.findall(r'class="sq \w+ chosen" role', page)) == 12
    assert re.search(r'aria-label="sample \d: passed at [^"]+">P<|title="[^"]+">P<', page)


def test_the_leaderboard_ranks_whole_runs_and_sets_the_others_apart(world):
    world.add_run("whole", limit=None, n=1)
    world.add_run("part", limit=20, n=1)
    world.add_run("stopped", limit=None, n=1, state=RunState.INTERRUPTED, done=30)
    page = world.client.get("/leaderboard").get_data(as_text=True)
    ranked, unranked = page.split("Not ranked", 1)
    assert "whole" in ranked
    assert "data-rank" in ranked
    assert "part" in unranked
    assert "30 of 164" in re.sub(r"\s+", " ", unranked)
    assert "data-rank" not in unranked


def test_runs_on_different_devices_are_not_in_one_ranking(world):
    world.add_run("fast", limit=None, n=1)
    world.add_run("slow", limit=None, n=1, device="CPU, 2 cores")
    page = text_of(world.client.get("/leaderboard"))
    assert "humaneval on NVIDIA H100 80GB HBM3" in page
    assert "humaneval on CPU, 2 cores" in page


def test_the_budget_in_the_address_recomputes_the_rows_without_javascript(world):
    world.add_run("whole", limit=None, n=2, pace=3.0, skill=0.7)
    shares = [
        float(
            re.search(r"data-share>([\d.]+) %", world.client.get(f"/leaderboard?budget={b}").get_data(as_text=True))[1]
        )
        for b in (1, 3, 10)
    ]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]


@pytest.mark.parametrize("budget", ["nonsense", "-3", "0", "nan", "1e999"])
@pytest.mark.parametrize("path", ["/leaderboard", "/overlay/{a},{b}"])
def test_a_budget_that_is_none_gets_a_sentence_and_a_page(world, path, budget):
    a, b = (world.add_run(name, limit=2, n=1) for name in ("one", "another"))
    assert "Budget is" in text_of(world.client.get(f"{path.format(a=a, b=b)}?budget={budget}"))


def test_the_sort_in_the_address_orders_the_rows_and_is_announced(world):
    world.add_run("quick", limit=None, n=1, pace=0.5, skill=0.1)
    world.add_run("good", limit=None, n=1, pace=3.0, skill=0.8)
    page = world.client.get("/leaderboard?sort=speed").get_data(as_text=True).split('class="cards board"')[1]
    assert page.index(">quick<") < page.index(">good<")
    assert 'aria-sort="ascending"' in page
    by_quality = world.client.get("/leaderboard?budget=10").get_data(as_text=True).split('class="cards board"')[1]
    assert by_quality.index(">good<") < by_quality.index(">quick<")


def test_runs_are_filtered_by_state(world):
    world.add_run("done one", n=1)
    world.add_run("waiting one", state=RunState.QUEUED, done=0, n=1)
    page = text_of(world.client.get("/runs?state=queued"))
    assert "waiting one" in page
    assert "done one" not in page
    assert "No run matches" in text_of(world.client.get("/runs?state=failed"))


def test_two_runs_are_compared_with_the_changed_settings_first(world):
    a = world.add_run("plain", drafter="none", skill=0.2)
    b = world.add_run("drafted", skill=0.9)
    page = text_of(world.client.get(f"/overlay/{a},{b}"))
    order = ("What changed", "Answer at", "Time", "Tasks that differ")
    assert [page.index(part) for part in order] == sorted(page.index(part) for part in order)
    assert "McNemar" in page
    assert "Drafter" in page


def test_a_run_a_study_an_overlay_and_the_first_page_open_at_the_same_budget(world):
    a = world.add_run("slow", n=2, pace=1.5, limit=None)
    b = world.add_run("quick", n=2, pace=0.5, limit=None)
    assert "Answer at 5 s" in text_of(world.client.get(f"/overlay/{a},{b}"))
    for page in ("/", "/leaderboard"):
        assert re.search(r'name="budget"[^>]* value="5"', world.client.get(page).text)
    study = world.add_study({"name": "x"}, {"name": "y", "n": 2})
    assert "At 5 s" in text_of(world.client.get(f"/studies/{study}"))


def test_links_between_the_tabs_of_a_run_keep_the_budget(world):
    run = world.add_run("one", limit=8)
    page = world.client.get(f"/runs/{run}?budget=3").text
    assert set(re.findall(rf'href="/runs/{run}\?([^"]*tab=\w+[^"]*)"', page)) >= {
        f"tab={tab}&amp;budget=3" for tab in ("tasks", "failures", "timing", "config")
    }
    assert "budget=" not in re.search(r'href="/runs\??([^"/]*)"', page)[1]


def test_a_comparison_shows_regressions_first_and_what_the_tasks_cannot_show(world):
    a = world.add_run("one", skill=0.5, n=2, limit=30)
    b = world.add_run("two", skill=0.5, n=2, limit=30)
    page = world.client.get(f"/overlay/{a},{b}?budget=10").get_data(as_text=True)
    outcomes = re.findall(r'data-label="Pass@First"><span class="outcome (\w+)"', page)
    assert outcomes == sorted(outcomes, key=["lost", "alike", "won"].index)
    assert {"lost", "won"} <= set(outcomes)
    assert "tasks would decide a difference of 5 points" in page
    assert "wide enough for all budgets and runs together" in " ".join(page.split())


def test_runs_of_different_devices_or_sizes_are_not_compared_silently(world):
    a = world.add_run("here", n=2)
    b = world.add_run("there", n=4, device="another")
    page = text_of(world.client.get(f"/overlay/{a},{b}"))
    assert "only shares can be compared" in page
    assert "times as many tokens per second" not in page
    assert "A has 2 samples per task, B has 4" in page


def test_the_test_of_a_completion_stands_as_it_was_typed(world):
    test = "assert f(1) == 1\nassert f(2)"
    spec = CompletionSpec(target="smollm2-135m", prompt="def f(x):\n    'it\"s $HOME'\n", test=test, n=3)
    run = submit(world.context, spec)
    page = html.unescape(world.client.get(f"/complete/{run}").get_data(as_text=True))
    assert test in page


def test_a_worker_that_went_silent_is_told_from_one_alive(world):
    world.add_worker("here:1")
    world.add_worker("gone:2", seen_s_ago=600)
    page = text_of(world.client.get("/workers"))
    assert "alive" in page
    assert "silent" in page


def test_about_defines_every_column_of_the_leaderboard(world):
    defined = " ".join(re.findall(r"<dt[^>]*>(.*?)</dt>", world.client.get("/about").get_data(as_text=True)))
    figures = {column.label for column in COLUMNS} - {"Date"}
    assert {label for label in figures if label not in defined} == set()


@pytest.mark.parametrize("path", [f"/runs/{NOWHERE}", f"/complete/{NOWHERE}", f"/datasets/{NOWHERE}", "/nowhere"])
def test_what_is_not_there_gets_a_page_that_leads_on(world, path):
    answer = world.client.get(path)
    assert answer.status_code == 404
    assert "Leaderboard" in answer.get_data(as_text=True)


def names(page: str) -> list[str]:
    return re.findall(r'class="name"(?: title="[^"]*")? href="/runs/[^"]+">([^<]+)<', page)


def test_runs_are_newest_first_and_filtered_in_an_address_that_can_be_linked(world):
    for name in ("beta 100%", "alpha", "gamma 1000"):
        world.add_run(name, n=1, limit=1)
    for address in ("/runs", "/runs?state=finished&dataset=humaneval", "/runs?sort=name&since=2020-01-01"):
        assert names(world.client.get(address).get_data(as_text=True)) == ["gamma 1000", "alpha", "beta 100%"]
    assert names(world.client.get("/runs?state=failed").get_data(as_text=True)) == []
    assert names(world.client.get("/runs?name=100%25").get_data(as_text=True)) == ["beta 100%"]
    assert names(world.client.get("/runs?name=ALPHA").get_data(as_text=True)) == ["alpha"]


def test_every_heading_of_the_board_orders_it_both_ways(world):
    for name, skill in (("good", 0.8), ("quick", 0.1)):
        world.add_run(name, limit=20, n=1, skill=skill)
    for key in ("run", *(column.key for column in COLUMNS)):
        orders = []
        for sort in (key, f"-{key}"):
            page = (
                world.client.get(f"/leaderboard?sort={sort}&budget=10")
                .get_data(as_text=True)
                .split('class="cards board"')[1]
            )
            orders.append((names(page), re.findall(r'aria-sort="(\w+)"', page)))
        (down, one), (up, other) = orders
        assert sorted([*one, *other]) == ["ascending", "descending"], key
        assert sorted(down) == sorted(up) == ["good", "quick"]
        if key in ("run", "first", "all"):
            assert down == up[::-1]


def test_links_within_a_run_keep_the_budget_and_its_tasks_are_shown_at_it(world):
    run = world.add_run("run", n=2, limit=20, pace=2.0)
    page = world.client.get(f"/runs/{run}?budget=2.5").get_data(as_text=True)
    tabs = re.findall(r'href="(/runs/[^"?]+\?[^"]*tab=[^"]+)"', page)
    assert len(tabs) >= 4
    assert all("budget=2.5" in tab for tab in tabs)
    tasks = world.client.get(f"/runs/{run}?tab=tasks&budget=2.5").get_data(as_text=True)
    assert "What had finished within 2.5 s." in tasks
    ends = [float(at) for at in re.findall(r"sample \d+: [\w ]+ at ([\d.]+) s", tasks)]
    assert ends
    assert max(ends) <= 2.5
    links = re.findall(rf'href="(/runs/{run}/tasks/[^"]+)"', tasks)
    assert links
    assert all("budget=2.5" in link for link in links)
    assert "Budget 2.5 s" in text_of(world.client.get(html.unescape(links[0])))
