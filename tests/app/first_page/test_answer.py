"""The answer of the first page: what it is from, what it says of models at a budget, and what it costs."""

from __future__ import annotations

import html
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event

from app.core.db.types import get_utc_time
from app.core.states import RunState
from app.datasets import service as datasets
from app.datasets.models import Dataset
from app.first_page import answer_cache
from app.first_page.answer_cache import MAX_COMPARED_RUNS, FirstPageAnswerCache, list_sources
from app.leaderboard.entries import LeaderboardCache
from app.runs import figures
from app.studies.models import Study
from evaluation import dataset_files

QUICK = {"name": "quick", "target": "small", "n": 1, "skill": 0.5, "pace": 0.4}
GOOD = {"name": "good", "target": "large", "n": 4, "skill": 0.9, "pace": 3.0}
DISTURBED = {"lost": 0.4, "verifies": (0.02, 0.03)}


@pytest.fixture
def card(world):
    """Reads the card again and again with one cache."""
    entries, kept = LeaderboardCache(), FirstPageAnswerCache()

    def read():
        with world.context.database.read() as session:
            return kept.read(session, list_sources(session, entries.read(session)))

    return read


@pytest.fixture
def at(world):
    """(heading, all texts of the answer) as shown at a budget."""

    def read(address: str) -> tuple[str, str]:
        page = world.client.get(address).get_data(as_text=True)
        section = re.search(r'<section class="answer".*?</section>', page, re.DOTALL)[0]
        return text_of(re.search(r"<h1.*?</h1>", section, re.DOTALL)[0]), text_of(section)

    return read


@pytest.fixture
def table(world):
    """(the budgets of the columns, the shares by model in their order) as shown at a budget."""

    def read(address: str) -> tuple[list[str], dict[str, list[str]]]:
        page = world.client.get(address).get_data(as_text=True)
        (found,) = re.findall(r'<table class="board models">.*?</table>', page, re.DOTALL)
        head, *rows = re.findall(r"<tr.*?</tr>", found, re.DOTALL)
        names = [re.search(r'class="name">([^<]+)<', row)[1] for row in rows]
        cells = [[text_of(cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)] for row in rows]
        return re.findall(r">([\d.]+) s<", head), dict(zip(names, cells, strict=True))

    return read


FEW = "Your newest run has only 4 tasks: too few for an answer."


def named(heading: str) -> str:
    """The model that a heading names."""
    return re.match(r"(?:Use )?(\S+?)(?::| is the best so far:| answers) ", heading)[1]


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))).strip()


def measured_elsewhere(world, limit: int) -> None:
    study_id = world.add_study(QUICK | {"limit": limit}, GOOD | {"limit": limit}, name="reference")
    with world.context.database.session() as session:
        study = session.get(Study, study_id)
        study.measured_elsewhere = "another machine"
        for run in study.runs:
            run.provenance = {**run.provenance, "measured_elsewhere": "another machine"}


def own_code(world) -> Dataset:
    """A part of HumanEval, as a dataset that was made from a project."""
    rows = dataset_files.write_dataset(datasets.to_evaluation_task(task) for task in world.humaneval.tasks[:100])
    datasets.import_bytes(world.context, rows, "my-project", "my-project.jsonl", (), {"covered_share": 0.5})
    return datasets.require_dataset(world.context, "my-project")


def test_one_sentence_names_the_model_its_share_how_sure_that_is_the_tasks_and_the_machine(world, at):
    study = world.add_study(QUICK | {"limit": 60}, GOOD | {"limit": 60}, name="Which one?")
    heading, whole = at("/?budget=1")
    assert re.fullmatch(
        r"(Use small: it|small is the best so far: it) answers \d+ % right within 1 s \(95 % interval: \d+ to \d+ %\) "
        r"over 60 tasks of humaneval on NVIDIA H100 80GB HBM3",
        heading,
    )
    assert "Details: Which one?" in whole
    assert named(at("/?budget=10")[0]) == "large"
    page = world.client.get("/").get_data(as_text=True)
    assert f'href="/studies/{study}?budget=' in page
    assert 'href="/try">Try my code<' in page
    assert 'href="/studies/new">Compare models<' in page


def test_a_row_is_a_model_by_its_best_configuration_ordered_at_the_chosen_budget(world, table):
    slow = GOOD | {"name": "slow", "drafter": "none", "pace": 9.0}
    world.add_study(*(arm | {"limit": 60} for arm in (QUICK, slow, GOOD)))
    columns, at_one = table("/?budget=1")
    assert (columns, list(at_one)) == (["1", "3", "5", "10"], ["small", "large"])
    columns, at_seven = table("/?budget=7")
    assert (columns, list(at_seven)) == (["1", "3", "5", "7", "10"], ["large", "small"])
    for column, share in zip(columns, at_seven["large"], strict=True):
        shown, rows = table(f"/?budget={column}")
        assert rows["large"][shown.index(column)] == share, "a column shows the same whatever is chosen"
    page = text_of(world.client.get("/?budget=10").get_data(as_text=True))
    assert "drafted by sibling" in page
    assert "no drafter" not in page, "the other configuration of the model"
    assert "tokens/s" in page


def test_the_model_to_use_is_the_one_that_the_study_uses(world, at):
    arms = [GOOD | {"name": f"{model} {n}", "target": model, "skill": skill, "pace": 0.5, "n": n}
            for model, skill in (("weak", 0.1), ("strong", 1.0)) for n in (1, 2)]  # fmt: skip
    study = world.add_study(*(arm | {"limit": 100} for arm in arms))
    for budget in (1, 3, 10):
        answer = world.client.get(f"/api/v1/studies/{study}?budget={budget}").json["at_budget"]
        heading, whole = at(f"/?budget={budget}")
        assert named(heading) == answer["use"].split()[0] == "strong"
    assert heading.startswith("Use strong: it answers ")
    assert "It is better than weak." in whole


def test_before_any_pass_it_says_that_nothing_is_right_and_when_something_is(world, at):
    world.add_run(**GOOD, limit=None)
    heading, whole = at("/?budget=0.1")
    assert heading.startswith("No model answers right within 0.1 s over 164 tasks")
    assert re.search(r"The first right answers come within .* s\.", whole)


def test_a_run_that_never_passes_gets_no_recommendation(world, at):
    world.add_run("hopeless", limit=answer_cache.MIN_COMMON_TASKS, n=1, pace=900)
    heading, whole = at("/")
    assert heading.startswith("No model answers right within 10 s over 20 tasks")
    assert "None is right within 10 s either, the longest measured time." in whole


def test_runs_over_the_same_tasks_answer_where_there_is_no_study_and_say_so(world, at):
    world.add_run(**QUICK, limit=None)
    world.add_run(**GOOD, limit=None)
    world.add_run("better over few tasks", target="other", limit=5, n=4, skill=1.0, pace=0.1)
    world.add_run("better on another device", target="other", limit=None, n=4, skill=1.0, pace=0.1, device="another")
    heading, whole = at("/?budget=10")
    assert named(heading) == "large"
    assert "over 164 tasks of humaneval on NVIDIA H100 80GB HBM3" in heading
    assert "From 2 runs that did not take turns: compare models to be sure." in whole


def test_one_run_is_described_not_recommended(world, at):
    world.add_run(**GOOD, limit=26)
    heading, whole = at("/?budget=10")
    assert re.match(r"large answers \d+ % right within 10 s \(95 % interval: \d+ to \d+ %\) over 26 tasks", heading)
    assert "From one run." in whole
    assert "With so few tasks" in whole


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (60, r"\. humaneval has too few tasks to decide\."),
        (30, r": too few tasks to tell\."),
    ],
)
def test_models_that_the_tasks_cannot_tell_apart_are_undecided_and_the_best_so_far_is_named(world, at, limit, why):
    arms = [GOOD | {"name": name, "target": name, "limit": limit, "weights": "int8"} for name in ("a", "b", "c")]
    world.add_study(*arms)
    heading, whole = at("/?budget=10")
    best = named(heading)
    assert heading.startswith(f"{best} is the best so far: ")
    assert f") with int8, over {limit} tasks" in heading
    assert re.search(f"Undecided against [abc] and [abc]{why}", whole)
    assert "even large differences" not in whole


def test_past_what_was_measured_there_is_no_answer(world, at, table):
    world.add_study(QUICK | {"limit": 60}, GOOD | {"limit": 60}, name="Which one?")
    for budget in ("20", "1e9", "1e308"):
        heading, whole = at(f"/?budget={budget}")
        assert heading == "Measured to 10 s: there is no answer for a longer time"
        assert "%" not in whole
        assert table(f"/?budget={budget}") == table("/?budget=10")


@pytest.mark.parametrize("path", ["/", "/leaderboard"])
def test_a_budget_that_is_none_is_named_with_the_one_that_is_shown(world, path):
    world.add_study(QUICK | {"limit": 60}, GOOD | {"limit": 60})
    page = world.client.get(f"{path}?budget=abc").get_data(as_text=True)
    assert "Budget is 'abc': give a number of seconds above 0, such as 5. The page shows 5 s." in text_of(page)
    assert re.search(r'name="budget"[^>]* value="5"', page)


def test_a_disturbed_study_answers_after_every_undisturbed_one(world, at):
    measured_elsewhere(world, 60)
    world.add_study(QUICK | {"limit": 20} | DISTURBED, GOOD | {"limit": 20}, name="disturbed")
    heading, whole = at("/")
    assert "Details: reference" in whole
    assert "Clock disturbed" not in whole
    assert "over 60 tasks" in heading
    trusted = world.add_study(QUICK | {"limit": 20}, GOOD | {"limit": 20}, name="trusted")
    assert "Details: trusted" in at("/")[1]
    world.client.delete(f"/api/v1/studies/{trusted}")
    assert "Details: reference" in at("/")[1]


def test_a_disturbed_study_answers_where_there_is_nothing_else_and_says_so_first(world, at):
    world.add_study(QUICK | {"limit": 20} | DISTURBED, GOOD | {"limit": 20}, name="disturbed")
    heading, whole = at("/")
    assert re.match(r"Measured on a busy machine, \S+ is the best so far: it answers \d+ % right", heading)
    assert 'title="Other programs used up to 40 %' in world.client.get("/").get_data(as_text=True)
    assert "Clock disturbed in 1 of 2 arms" in whole


def test_a_study_answers_by_its_undisturbed_arms_where_each_model_has_one(world, at):
    slow = GOOD | {"name": "slow", "pace": 9.0, "limit": 20}
    world.add_study(QUICK | {"limit": 20}, GOOD | {"limit": 20}, slow | DISTURBED, name="mixed")
    heading, whole = at("/")
    assert not heading.startswith("Measured on")
    assert "Clock disturbed" not in whole
    assert "Details: mixed" in whole


def test_a_study_of_several_models_answers_before_one_with_more_tasks_of_one(world, at):
    world.add_study(QUICK | {"limit": 20}, GOOD | {"limit": 20}, name="models")
    world.add_study(GOOD | {"limit": 60}, GOOD | {"name": "other", "n": 1, "limit": 60}, name="one model")
    assert "Details: models" in at("/")[1]


def test_a_disturbed_run_leaves_the_answer_to_the_others(world, card):
    world.add_run("busy", limit=None, n=1, **DISTURBED)
    for name in ("a", "b"):
        world.add_run(name, limit=None, n=1)
    assert {run.name for run in card().source.runs} == {"a", "b"}


def test_answers_of_runs_do_not_displace_each_other_from_the_cache(world, card, monkeypatch):
    world.add_run("busy", limit=None, n=1, **DISTURBED)
    world.add_run("a", limit=None, n=1)
    build_answer, built = answer_cache.build_answer, []

    def build(session, source):
        built.append(len(source.runs))
        return None if len(source.runs) == 1 else build_answer(session, source)

    monkeypatch.setattr(answer_cache, "build_answer", build)
    assert card() is card()
    assert built == [1, 2]


def test_advice_about_own_code_never_replaces_the_general_answer(world, at):
    dataset = own_code(world)
    world.add_study(QUICK | {"dataset": dataset}, GOOD | {"dataset": dataset}, name="a try")
    mine = {"limit": None, "dataset": dataset}
    advice = world.add_study(QUICK | mine, GOOD | mine, name="advice for my-project")
    heading, whole = at("/?budget=10")
    assert "over 100 tasks of your code on" in heading
    assert "Details: advice for my-project" in whole
    measured_elsewhere(world, 60)
    heading, whole = at("/?budget=10")
    assert "over 60 tasks of humaneval" in heading
    assert "On your code: advice for my-project" in whole
    report = f"/try/report/{advice}"
    assert f'href="{report}"' in world.client.get("/").get_data(as_text=True)
    assert "tasks of your code within" in world.client.get(report).get_data(as_text=True)


def test_past_the_budget_of_a_run_the_others_are_compared(world, card, table, at):
    world.add_run("short", target="short", limit=None, n=1, skill=0.9, pace=0.5, budget_s=3.0)
    world.add_run("long", target="long", limit=None, n=1, skill=0.1, pace=3.0, budget_s=20.0)
    found = card()
    used = [found.runs[found.at(budget_s).arm].name for budget_s in (2.5, 15)]
    assert (used, found.at(25)) == (["short", "long"], None)
    assert found.at(2.5).one_second_more is None, "the short run was not given it"
    assert table("/?budget=15")[1]["short"][2:] == ["–", "–", "–"]
    heading, whole = at("/?budget=15")
    assert heading.startswith("long answers ")
    assert "better than" not in whole


def test_a_running_study_leaves_the_answer_to_one_that_has_ended(world, card):
    arms = [arm | {"state": RunState.RUNNING, "limit": 60, "done": 40} for arm in (QUICK, GOOD)]
    world.add_study(*arms, name="running")
    assert card() is None
    world.add_study(QUICK | {"limit": answer_cache.MIN_COMMON_TASKS}, GOOD | {"limit": 40}, name="ended")
    world.add_study(*arms, name="later running")
    assert (card().study.name, card().n_tasks) == ("ended", answer_cache.MIN_COMMON_TASKS)


def test_dropped_and_failed_arms_take_no_tasks_from_the_others(world, card):
    failed = {"name": "failed", "n": 1, "limit": 30, "state": RunState.FAILED, "done": 0}
    world.add_study(QUICK | {"limit": 30}, GOOD | {"limit": 30}, failed)
    assert card().n_tasks == 30


def test_own_results_come_first_then_the_largest_number_of_tasks_then_the_newest(world, card):
    measured_elsewhere(world, 60)
    assert card().study.elsewhere == "another machine"
    world.add_run("own", limit=30, n=1)
    assert card().study is None
    for name, limit in (("large", 50), ("older", 30), ("newer", 30), ("a try", 2)):
        world.add_study(QUICK | {"limit": limit}, GOOD | {"limit": limit}, name=name)
        assert card().study.name == "large"
    large = card().study.id
    world.client.delete(f"/api/v1/studies/{large}")
    assert card().study.name == "newer"


def test_a_run_over_few_tasks_leaves_the_answer_to_a_larger_study_and_the_page_says_why(world, at):
    measured_elsewhere(world, 60)
    assert FEW not in text_of(world.client.get("/").get_data(as_text=True))
    world.add_run("older", limit=6, n=1)
    world.add_study(QUICK | {"limit": 4}, GOOD | {"limit": 4}, name="a small study")
    heading, whole = at("/?budget=10")
    assert named(heading) == "large"
    assert "Measured on another machine." in whole
    assert "Details: reference" in whole
    assert FEW in whole
    world.add_run("the newest", limit=1, n=1)
    assert FEW.replace("4 tasks", "1 task") in at("/")[1]
    world.add_run("busy", limit=30, n=1, **DISTURBED)
    assert "The clock of your newest run was disturbed: it gives no answer." in at("/")[1]
    world.add_run("enough", limit=answer_cache.MIN_COMMON_TASKS, n=1)
    assert "From one run." in at("/")[1]
    assert "no answer" not in at("/")[1]


def test_without_enough_tasks_anywhere_the_page_gives_no_answer_and_links_to_the_newest_run(world):
    measured_elsewhere(world, answer_cache.MIN_COMMON_TASKS - 1)
    run = world.add_run("a try", limit=4, n=1, skill=0.0)
    page = world.client.get("/").get_data(as_text=True)
    assert "No answer yet: too few tasks" in page
    assert f'Your <a href="/runs/{run}">newest run</a> has only 4 tasks: too few for an answer.' in " ".join(
        page.split()
    )
    assert 'href="/leaderboard"' in page


def test_arms_with_few_tasks_in_common_give_no_answer_and_the_next_source_does(world, card):
    arms = [QUICK | {"limit": 40}, GOOD | {"limit": 40}]
    world.add_study(*arms, name="older")
    newer = world.add_study(*arms, name="newer")
    assert card().study.name == "newer"
    with world.context.database.session() as session:  # the sandbox failed on other tasks of each arm
        for run, lost in zip(session.get(Study, newer).runs, (slice(0, 15), slice(15, 30)), strict=True):
            for task in run.tasks[lost]:
                task.samples[0].verdict = "sandbox_error"
            run.finished_at = get_utc_time()
            session.flush()
            figures.store_measurement(session, run, figures.compute_measurement(session, run))
            assert run.curve.n_tasks > answer_cache.MIN_COMMON_TASKS
    assert card().study.name == "older"


def test_hostile_names_stay_text(world):
    hostile = QUICK | {"name": "<b>q</b>", "target": "<b>m</b>", "limit": 30}
    world.add_study(hostile, GOOD | {"limit": 30}, name="<script>alert(1)</script>")
    page = world.client.get("/").get_data(as_text=True)
    assert "<b>" not in page
    assert "<script>alert" not in page


def test_of_many_runs_the_best_are_compared_and_the_page_says_so(world, at):
    for i in range(MAX_COMPARED_RUNS + 2):
        world.add_run(f"run {i}", target=f"model-{i}", limit=None, n=1, skill=0.1 * i, seed=i)
    heading, whole = at("/?budget=10")
    assert named(heading) == f"model-{MAX_COMPARED_RUNS + 1}"
    assert f"From the best {MAX_COMPARED_RUNS} of {MAX_COMPARED_RUNS + 2} runs" in whole


def test_no_sample_is_read_again_until_something_has_ended(world):
    world.add_study(QUICK | {"limit": 30}, GOOD | {"limit": 30})
    sent: list[str] = []
    event.listen(
        world.context.database.engine, "before_cursor_execute", lambda _c, _k, statement, *_: sent.append(statement)
    )
    world.client.get("/")
    assert any("FROM samples" in statement for statement in sent)
    sent.clear()
    world.client.get("/?budget=2")
    assert sum(statement.startswith("SELECT") for statement in sent) == 3
    assert not any("samples" in statement for statement in sent)
    world.add_study(QUICK | {"limit": 30}, GOOD | {"limit": 30}, name="another")
    sent.clear()
    world.client.get("/")
    assert any("FROM samples" in statement for statement in sent)


def test_a_page_without_an_answer_leads_to_the_leaderboard(world):
    world.add_run("stopped", limit=3, n=1, state=RunState.INTERRUPTED, done=2)
    page = world.client.get("/").get_data(as_text=True)
    assert "No answer yet: no finished run to compare" in page
    assert ">stopped<" in world.client.get("/leaderboard").get_data(as_text=True)


def test_an_answer_that_is_being_computed_holds_up_no_other_source(world, monkeypatch):
    for name in ("one", "another"):
        world.add_study(QUICK | {"limit": 30}, GOOD | {"limit": 30}, name=name)
    entries, kept = LeaderboardCache(), FirstPageAnswerCache()
    begun, may_end = threading.Event(), threading.Event()

    def hold_first_answer(session, source):
        if not begun.is_set():
            begun.set()
            assert may_end.wait(60)
        return build_answer(session, source)

    build_answer = answer_cache.build_answer
    monkeypatch.setattr(answer_cache, "build_answer", hold_first_answer)

    def read(study):
        with world.context.database.read() as session:
            sources = [one for one in list_sources(session, entries.read(session)) if one.study.name == study]
            return kept.read(session, sources)

    with ThreadPoolExecutor(2) as pool:
        cold = pool.submit(read, "one")
        assert begun.wait(60)
        try:
            assert pool.submit(read, "another").result(60) is not None
        finally:
            may_end.set()
        assert cold.result(60) is not None
