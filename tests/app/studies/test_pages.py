"""The pages of studies answer in every state that a study can be in, and show every text as text."""

from __future__ import annotations

import csv
import html
import io
import re
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.core.db.types import get_utc_time
from app.core.states import RunState
from app.runs.figures import build_outcome
from app.runs.repository import load_measured_tasks
from app.studies import analysis as analysing
from app.studies import loading, pages
from app.studies.analysis import AnalysisCache
from app.studies.models import Study
from app.studies.pages import shorten_arm_names
from app.studies.repository import get_study, list_studies
from app.studies.schemas import StudySpec
from app.studies.service import submit
from evaluation.outcomes import compute_pass_all, compute_pass_first

TABS = ("answer", "details", "arms")
HOSTILE = "</h1><script>alert(1)</script> {{ 7 * 7 }} \u202e\x1b[31m"


def arm(name: str = "", drafter: str = "sibling", n: int = 2, **options):
    return {"name": name or f"smollm2-135m, {drafter}, n = {n}", "drafter": drafter, "n": n, "seed": 3, **options}


def text_of(answer) -> str:
    assert answer.status_code == 200, answer.get_data(as_text=True)[:400]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.get_data(as_text=True))))


def change(world, study_id, **values):
    with world.context.database.session() as session:
        study = session.get_one(Study, study_id)
        for name, value in values.items():
            setattr(study, name, value)


def drop(world, study_id, position: int, by: int):
    with world.context.database.session() as session:
        lost = session.get_one(Study, study_id).arms[position]
        lost.dropped_at, lost.dropped_by, lost.dropped_after = get_utc_time(), by, 8


@pytest.fixture
def world(world):
    world.app.config["WTF_CSRF_ENABLED"] = False
    return world


@pytest.fixture
def paper(world):
    """A study of four finished arms, two with regular decoding, and its address."""
    study = world.add_study(arm(drafter="none", n=1, pace=4), arm(drafter="none", n=4, pace=5), arm(n=1), arm(n=4))
    return f"/studies/{study}"


@pytest.mark.parametrize("reference", [True, False])
def test_without_studies_the_list_says_what_a_study_is_and_what_to_do(world, monkeypatch, reference):
    if not reference:
        monkeypatch.setattr(loading, "REFERENCE_FOLDERS", ())
    page = text_of(world.client.get("/studies"))
    assert "A study decodes the same tasks with each of several configurations" in page
    assert "New study" in page
    assert ("Load the reference studies" in page) == reference


def test_the_list_has_pages(world, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_SIZE", 2)
    for number in range(3):
        world.add_study(arm(n=1), arm(n=4), name=f"study {number}")
    first = world.client.get("/studies").get_data(as_text=True)
    assert re.findall(r"study \d", first) == ["study 2", "study 1"]
    assert "24 of 24" in first
    following = html.unescape(re.search(r'href="(/studies\?before=[^"]+)"', first)[1])
    assert "study 0" in text_of(world.client.get(following))


def test_a_study_that_is_being_analysed_holds_up_no_other(world, monkeypatch):
    slow, quick = (world.add_study(arm(n=1), arm(n=4), name=name) for name in ("slow", "quick"))
    begun, may_end = threading.Event(), threading.Event()

    def analysis(session, study):
        if study.id == slow:
            begun.set()
            assert may_end.wait(60)
        return analysis_of(session, study)

    analysis_of = analysing.analyse_study
    monkeypatch.setattr(analysing, "analyse_study", analysis)
    with ThreadPoolExecutor(2) as pool:
        cold = pool.submit(world.client.get, f"/studies/{slow}")
        assert begun.wait(60)
        try:
            assert pool.submit(world.client.get, f"/studies/{quick}").result(60).status_code == 200
        finally:
            may_end.set()
        assert cold.result(60).status_code == 200


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_names_what_to_conclude(world, paper, tab):
    page = text_of(world.client.get(f"{paper}?tab={tab}&budget=10"))
    expected = {
        "answer": r"(use|the best so far is) (sibling|no drafter), n = \d",
        "details": r"How many samples: .* What speculation gains .* Seconds saved",
        "arms": "Pass@First and Pass@All at 10 s, over the 12 tasks in common",
    }[tab]
    assert re.search(expected, page)


def test_the_budget_of_the_address_is_that_of_the_answer(world, paper):
    early, late = (text_of(world.client.get(f"{paper}?budget={budget}")) for budget in ("0.2", "10"))
    assert "within 0.2 s no chosen sample passes" in early
    assert "At 10 s" in late
    assert "beyond the study's budget" in late


def test_a_study_opens_at_5_s(world, paper):
    page = world.client.get(paper).get_data(as_text=True)
    budget = float(re.search(r'id="budget"[^>]* value="([\d.]+)"', page)[1])
    assert budget == 5


@pytest.mark.parametrize(("budget", "said"), [("many", "give a number"), ("-1", "above 0"), ("99", "at most that")])
def test_an_impossible_budget_is_named_and_the_page_still_answers(world, paper, budget, said):
    page = text_of(world.client.get(f"{paper}?budget={budget}"))
    assert "Budget is" in page
    assert said in page
    assert "Time for a share of the tasks" in page


@pytest.mark.parametrize("budget", [1.0, 3.0, 3.217, 7.0, 7.2, 10.0])
def test_page_rest_and_file_give_the_figures_of_the_definition_at_the_budget(world, budget):
    """Also between the round budgets: nothing shows the figures of a smaller budget."""
    study = world.add_study(arm(n=1, pace=2.0), arm(n=4, pace=2.5), name="exact")
    with world.context.database.read() as session:
        runs = {
            one.name: [
                build_outcome(task.task.task_id, sample)
                for task in load_measured_tasks(session, one.run_id)
                for sample in task.samples
            ]
            for one in get_study(session, study).arms
        }
    expected = {
        name: (compute_pass_first(of_arm, budget), compute_pass_all(of_arm, budget)) for name, of_arm in runs.items()
    }
    document = world.client.get(f"/api/v1/studies/{study}?budget={budget}").json
    best = document["at_budget"]
    assert best["budget_s"] == budget
    assert best["arm"] is None or (best["pass_first"], best["pass_all"]) == expected[best["arm"]]
    assert best["pass_first"] == max(first for first, _ in expected.values())
    (family,) = document["samples"]
    cells = [row[family["budgets"].index(budget)] for row in family["rows"]]
    of_n = [(cell["pass_first"], cell["pass_all"]) for cell in cells]
    assert dict(zip(family["arms"], of_n, strict=True)) == expected
    rows = csv.DictReader(io.StringIO(world.client.get(f"/api/v1/studies/{study}/export?format=csv").text))
    read = {
        row["arm"]: (float(row["pass_first"]), float(row["pass_all"]))
        for row in rows
        if float(row["budget_s"]) <= budget
    }
    assert read == expected, "each row holds up to the next one of its arm"
    shares = [f"{100 * share:.0f} %" for pair in expected.values() for share in pair]
    arms = world.client.get(f"/studies/{study}?tab=arms&budget={budget}").get_data(as_text=True)
    assert re.findall(r'<td class="right num">(\d+ %) ', arms) == shares
    details = text_of(world.client.get(f"/studies/{study}?tab=details&budget={budget}"))
    for first, every in expected.values():
        assert f"{100 * first:.0f} % / {100 * every:.0f} %" in details


def test_rows_and_address_say_the_same_at_each_named_budget(world, paper):
    document = world.client.get(f"/api/v1{paper}").json
    whole = text_of(world.client.get(paper))
    with world.context.database.read() as session:
        labels = shorten_arm_names(get_study(session, uuid.UUID(paper.removeprefix("/studies/"))))
    assert [one["budget_s"] for one in document["answer"]] == [1.0, 2.0, 3.0, 5.0, 10.0]
    for one in document["answer"]:
        budget = one["budget_s"]
        at = world.client.get(f"/api/v1{paper}?budget={budget}").json["at_budget"]
        assert {name: one[name] for name in at} == at
        if one["arm"]:
            share = f"{100 * one['use_pass_first']:.0f} %"
            page = text_of(world.client.get(f"{paper}?budget={budget}"))
            assert f"Pass@First {share[:-2]} %" in page
            assert re.search(rf" {budget:g} s {re.escape(labels[one['use']])} ", whole)
            assert re.search(rf"ithin {budget:g} s [a-z; ]*{re.escape(one['use'])}: {share}", document["sentence"])


def test_a_study_of_one_task_claims_nothing(world):
    study = world.add_study(arm(n=1, limit=1, skill=2), arm(n=4, limit=1, skill=2))
    page = text_of(world.client.get(f"/studies/{study}?budget=10"))
    assert re.search(r"On 1 task within 10 s the best so far is n = \d ?: 100 % right", page)
    assert re.search(r"Undecided against n = \d ?[.,]", page)


def test_a_study_without_a_finished_task_says_what_it_waits_for(world):
    study = world.add_study(arm(n=1, state=RunState.QUEUED, done=0), arm(n=4, state=RunState.QUEUED, done=0))
    for tab in TABS:
        page = text_of(world.client.get(f"/studies/{study}?tab={tab}"))
        assert "There is an answer as soon as all arms have graded the same task" in page
        assert "0 of 24 tasks of all arms decoded" in page
        assert "at most 4 min of decoding left" in page


def test_a_study_at_work_shows_each_arms_progress_and_can_be_cancelled(world):
    running = {"state": RunState.RUNNING}
    study = world.add_study(arm(n=1, done=5, **running), arm(n=4, done=4, **running))
    page = world.client.get(f"/studies/{study}").get_data(as_text=True)
    assert "data-events" in page
    assert "5 of 12 tasks decoded" in page
    assert "Over the 4 tasks that all arms have graded" in text_of(world.client.get(f"/studies/{study}"))
    assert world.client.post(f"/studies/{study}/cancel").status_code == 303
    with world.context.database.read() as session:
        assert all(run.cancel_requested_at for run in get_study(session, study).runs)


def test_a_cancelled_study_says_what_it_has_and_can_be_resumed(world):
    study = world.add_study(arm(n=1), arm(n=4, done=5, state=RunState.CANCELLED))
    page = text_of(world.client.get(f"/studies/{study}"))
    assert "Cancelled: 17 of 24 tasks of all arms were decoded" in page
    assert "Resume runs the remaining ones" in page
    assert world.client.post(f"/studies/{study}/resume").status_code == 303
    assert "running" in text_of(world.client.get(f"/studies/{study}"))


def test_a_dropped_arm_names_the_better_one_and_a_failed_one_its_reason(world):
    study = world.add_study(
        arm(n=1),
        arm(n=4),
        arm(drafter="none", n=4, done=8, state=RunState.FINISHED),
        arm(n=8, done=2, state=RunState.FAILED),
    )
    drop(world, study, position=2, by=1)
    page = text_of(world.client.get(f"/studies/{study}?tab=arms"))
    assert re.search(r"Dropped after 8 tasks, .* UTC: sibling, n = 4 is better at every budget of interest", page)
    assert "No sandbox on this machine" in page
    assert "Left out of the comparison: no drafter, n = 4; sibling, n = 8" in page
    assert "over the 12 tasks in common" in page


def test_a_study_measured_elsewhere_is_marked_and_cannot_be_resumed(world):
    study = world.add_study(arm(n=1, done=5, state=RunState.INTERRUPTED), arm(n=4))
    assert "Resume" in text_of(world.client.get(f"/studies/{study}"))
    change(world, study, measured_elsewhere=f"AMD EPYC, 2 cores {HOSTILE}")
    page = text_of(world.client.get(f"/studies/{study}"))
    assert "Measured on another machine: AMD EPYC, 2 cores" in page
    assert "Resume" not in page
    assert "Measured on another machine" in text_of(world.client.get("/studies"))


def test_turns_in_blocks_are_said_so(world, paper):
    assert "take turns after every task" in text_of(world.client.get(f"{paper}?tab=arms"))
    change(world, uuid.UUID(paper.rpartition("/")[2]), block_tasks=16)
    assert "after every 16 tasks, because their engines cannot be loaded together" in text_of(
        world.client.get(f"{paper}?tab=arms")
    )


@pytest.mark.parametrize("tab", TABS)
def test_hostile_names_stay_text(world, tab):
    study = world.add_study(arm(f"a {HOSTILE}", n=1), arm(f"b {HOSTILE}", n=4), name=HOSTILE)
    change(world, study, command=HOSTILE, machine={"cpu": HOSTILE})
    for path in ("/studies", f"/studies/{study}?tab={tab}"):
        page = world.client.get(path).get_data(as_text=True)
        assert "<script>alert" not in page
        assert "{{ 7 * 7 }}" in page
        assert "\u202e" not in page
        assert "\x1b" not in page


@pytest.mark.thorough
def test_thirty_two_arms_have_a_page_within_its_weight(world):
    arms = [arm(drafter=d, n=n, limit=4) for d in ("none", "ngram", "sibling", "other") for n in range(1, 9)]
    study = world.add_study(*arms)
    for tab in TABS:
        answer = world.client.get(f"/studies/{study}?tab={tab}")
        assert answer.status_code == 200
        assert len(answer.data) < 200_000


def test_deleting_a_study_deletes_the_runs_of_its_arms(world, paper):
    assert world.client.post(f"{paper}/delete").status_code == 303
    assert world.client.get(paper).status_code == 404
    with world.context.database.read() as session:
        assert not list_studies(session)
    assert "No runs yet" in text_of(world.client.get("/runs"))


def test_an_open_study_cannot_be_deleted(world):
    study = world.add_study(arm(n=1, state=RunState.RUNNING, done=1), arm(n=4))
    assert "Delete this study" not in text_of(world.client.get(f"/studies/{study}?tab=arms"))
    assert world.client.post(f"/studies/{study}/delete").status_code == 409


def test_an_analysis_rests_while_its_study_works_but_not_when_it_has_ended(world, monkeypatch):
    monkeypatch.setattr("app.studies.analysis.REST", 10**6)  # the rest of a quick analysis may end before the next look
    study_id = world.add_study(arm(n=1, state=RunState.RUNNING, done=5), arm(n=4, state=RunState.RUNNING, done=5))
    analyses = AnalysisCache()

    def covered(*, allow_stale: bool) -> int:
        with world.context.database.read() as session:
            return len(
                analyses.get(session, get_study(session, study_id), allow_stale=allow_stale).statistics.tasks_common
            )

    assert covered(allow_stale=True) == 5
    with world.context.database.session() as session:
        for one in get_study(session, study_id).arms:
            one.run.state = RunState.CANCELLED
            one.run.tasks[4].samples.clear()
    assert covered(allow_stale=True) == 5, "shown again: it was computed a moment ago"
    assert covered(allow_stale=False) == 4


def test_a_submitted_study_waits_with_its_command(world):
    spec = StudySpec(limit=3, arms=[{"target": "smollm2-135m", "n": n} for n in (1, 2)])
    study = submit(world.context, spec, command="bassline study run --limit 3")
    page = text_of(world.client.get(f"/studies/{study}"))
    assert "bassline study run --limit 3" in page


def test_the_time_left_waits_until_every_arm_has_more_than_one_task(world):
    running = {"state": RunState.RUNNING}
    for done, words in ((1, "at most"), (3, "about")):
        study = world.add_study(arm(n=1, done=5, **running), arm(n=4, done=done, **running))
        assert re.search(rf"{words} [\w. ]+ of decoding left", text_of(world.client.get(f"/studies/{study}")))


def test_no_arm_is_selected_before_the_reader_selects_one(world, paper):
    page = world.client.get(f"{paper}?tab=arms").get_data(as_text=True)
    assert page.count('class="pick"') == 4
    assert not re.search(r'<input class="pick"[^>]* checked', page)


def test_the_table_of_the_paper_has_only_what_regular_decoding_sets_a_budget_for(world):
    study = world.add_study(arm(drafter="none", n=1), arm(n=1), arm("other", target="qwen2.5-coder-0.5b"))
    page = world.client.get(f"/studies/{study}?tab=details").get_data(as_text=True)
    table = page.partition("speculation: quality</h2>")[2].partition("</table>")[0]
    assert table.count("<tr>") == 3, "the headings, regular decoding, and the arm with the same target"
    assert ">\u2013<" not in table
