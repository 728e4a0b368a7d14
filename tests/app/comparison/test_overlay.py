"""Runs laid over each other: choosing them, the paired differences, and every wrong address."""

from __future__ import annotations

import re
import uuid

import pytest

from app.comparison import loading
from app.comparison.loading import MAX_RUNS
from app.core.states import RunState
from app.runs.models import Run
from app.web.ui.units import format_p_value
from evaluation.outcomes import FIGURES
from tests.app.comparison.reading import PASSED, WRONG, address, judge, lay_over, text_of


@pytest.fixture
def three(world) -> list[uuid.UUID]:
    """Runs over the same twelve tasks."""
    return [world.add_run(name, skill=skill) for name, skill in (("plain", 0.2), ("better", 0.8), ("equal", 0.25))]


def test_ticked_runs_lead_to_one_address_with_the_baseline_first(world, three):
    a, b, c = three
    answer = world.client.get(f"/overlay?runs={a}&runs={b}&runs={c}&runs={a}&baseline={b}&budget=5")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/overlay/{b},{a},{c}?budget=5")
    assert world.client.get(f"/overlay?runs={a},{b}").headers["Location"] == f"/overlay/{a},{b}"


def test_the_page_names_runs_tasks_baseline_and_every_difference(world, three):
    page = text_of(world.client.get(address(*three, budget=6)))
    assert "3 runs over 12 tasks of humaneval" in page
    assert "The baseline run is A, plain" in page
    for words in (
        "At 6 s, against A",
        "Minus A",
        "Pin as baseline run : better",
        "Leave out : equal",
        "Compare with A",
    ):
        assert words in page
    assert world.client.get("/overlay").headers["Location"] == "/runs"


def test_figures_and_differences_are_those_of_compare(world, three):
    paired = lay_over(world, *three).paired_runs
    page = text_of(world.client.get(address(*three, budget=6)))
    for place, other in enumerate(three[1:], 1):
        compared = world.client.get(f"/api/v1/compare?reference={three[0]}&other={other}&budget=6").get_json()
        for figure in FIGURES:
            wanted, decision = compared[f"pass_{figure}"], paired.decide(figure, place, 0, 6)
            assert paired.compute_share(figure, place, 6) == pytest.approx(wanted["a"])
            assert decision.difference == pytest.approx(wanted["delta"])
            assert decision.low < wanted["low"], "three runs to choose from, not two"
            assert decision.high > wanted["high"]
            assert f"{len(wanted['wins'])} won, {len(wanted['losses'])} lost, {format_p_value(wanted['p'])}" in page


def test_an_overlay_of_two_runs_has_the_intervals_of_compare(world, three):
    decision = lay_over(world, *three[:2]).paired_runs.decide("first", 1, 0, 6)
    compared = world.client.get(f"/api/v1/compare?reference={three[0]}&other={three[1]}&budget=6").get_json()
    assert [decision.low, decision.high] == [compared["pass_first"]["low"], compared["pass_first"]["high"]]


def test_many_comparisons_do_not_find_a_difference_by_chance_more_often(world):
    """Seven tasks won and none lost: p is 0.016, which is beyond chance for two runs, but not among twelve."""
    runs = [world.add_run(f"run {i}", n=1, limit=20) for i in range(12)]
    for number, run_id in enumerate(runs):
        for task in range(20):
            judge(world, run_id, task, PASSED if number == 1 and task < 7 else WRONG)
    for others, beyond_chance in ((runs[1:2], True), (runs[1:], False)):
        paired = lay_over(world, runs[0], *others).paired_runs
        assert paired.count_wins_and_losses("first", 1, 0, 8) == (7, 0)
        assert (paired.decide("first", 1, 0, 8).verdict == "better") is beyond_chance
        page = text_of(world.client.get(address(runs[0], *others, budget=8)))
        assert f"7 won, 0 lost, {format_p_value(2 * 0.5**7)}" in page


def test_runs_over_different_tasks_share_their_common_ones_and_the_page_says_so(world):
    a, b = world.add_run("short", limit=8), world.add_run("long", limit=12)
    page = text_of(world.client.get(address(a, b)))
    assert "2 runs over 8 tasks of humaneval" in page
    assert "All figures are over the 8 that all of them have graded; more were graded by: B 12." in page
    assert len(lay_over(world, a, b).task_ids) == 8


def test_runs_on_different_devices_or_not_in_turn_carry_a_caution(world):
    a, b, c = world.add_run("a"), world.add_run("b"), world.add_run("c", device="AMD EPYC 7763")
    assert "were not measured in turn" in text_of(world.client.get(address(a, b)))
    assert "used different devices" in text_of(world.client.get(address(a, b, c)))
    study = world.add_study({"name": "x"}, {"name": "y", "n": 2})
    arms = [arm["run_id"] for arm in world.client.get(f"/api/v1/studies/{study}").get_json()["arms"]]
    assert "were not measured in turn" not in text_of(world.client.get(address(*arms)))
    assert lay_over(world, *arms).in_turn is True
    assert lay_over(world, a, b).in_turn is False


def test_a_run_that_still_runs_is_read_from_its_samples(world):
    a, b = world.add_run("ended"), world.add_run("running", state=RunState.RUNNING, done=5)
    assert len(lay_over(world, a, b).task_ids) == 5


def test_a_run_deleted_meanwhile_is_left_out_with_a_sentence_and_letters_stay(world, three):
    a, b, c = three
    with world.context.database.session() as session:
        session.delete(session.get_one(Run, b))
    page = text_of(world.client.get(address(a, b, c)))
    assert f"Left out: there is no run {b}: it may have been deleted, so leave it out." in page
    assert "2 runs over 12 tasks" in page
    assert re.search(r"\bC equal\b", page)
    for view in ("/matrix", "/task"):
        answer = world.client.get(address(a, b, c, view=view, id="HumanEval/0"))
        assert answer.status_code == 200
    for gone in (a, c):
        with world.context.database.session() as session:
            session.delete(session.get_one(Run, gone))
    assert "there is no run" in text_of(world.client.get(address(a, b, c)), 404).lower()


@pytest.mark.parametrize(
    ("runs", "status", "words"),
    [
        ("", 422, "select at least two runs"),
        ("{a}", 422, "select at least two runs"),
        ("{a},{a}", 422, "select at least two runs"),
        ("{a},nonsense", 422, "'nonsense' in runs is not a run's id"),
        ("{a},00000000-0000-7000-8000-000000000000", 404, "there is no run 00000000-0000-7000-8000-000000000000"),
        ("{a},{waiting}", 422, "'waiting' has no graded task: leave it out, or wait until it has one"),
        ("{a},{other}", 422, "no graded task in common"),
        ("{many}", 422, f"runs names {MAX_RUNS + 1} runs: an overlay holds at most {MAX_RUNS}"),
    ],
)
def test_runs_that_cannot_be_laid_over_each_other_are_refused_in_one_sentence(world, runs, status, words):
    made = {
        "a": world.add_run("a", done=3, state=RunState.INTERRUPTED),
        "waiting": world.add_run("waiting", state=RunState.QUEUED, done=0),
        "other": None,
        "many": ",".join(str(uuid.uuid4()) for _ in range(MAX_RUNS + 1)),
    }
    made["other"] = _over_other_tasks(world)
    named = runs.format(**made)
    page = world.client.get("/overlay", query_string={"runs": named}, follow_redirects=True)
    assert words.lower() in text_of(page, status).lower()


def _over_other_tasks(world) -> uuid.UUID:
    """A run of which only the last of its twelve tasks is graded."""
    run_id = world.add_run("late")
    with world.context.database.session() as session:
        for row in session.get_one(Run, run_id).tasks[:-1]:
            session.delete(row)
    return run_id


def test_runs_with_more_samples_than_a_page_can_read_are_refused(world, three, monkeypatch):
    monkeypatch.setattr(loading, "MAX_SAMPLES", 100)
    assert "These runs have 144 samples: choose runs with at most 100" in text_of(
        world.client.get(address(*three)), 422
    )


def test_wrong_budgets_are_named_and_the_page_stays(world):
    a, b = world.add_run("short", budget_s=5), world.add_run("long", budget_s=10)
    page = text_of(world.client.get(address(a, b, budget="x")))
    assert "Budget is 'x': give a number of seconds" in page
    assert "run A stopped at 5 s, so give at most that" in text_of(world.client.get(address(a, b, budget=8)))
    stranger = world.client.get(f"/overlay?runs={a},{b}&baseline={uuid.uuid4()}")
    assert "give one of the runs of the overlay" in text_of(stranger, 422)


def test_names_are_shown_as_text(world):
    hostile = "</h1><script>alert(1)</script> \u202e"
    a, b = (world.add_run(f"{hostile} {i}") for i in range(2))
    pages = [address(a, b), address(a, b, view="/matrix"), address(a, b, view="/task", id="HumanEval/0"), "/overlay"]
    for page in pages:
        body = world.client.get(page).get_data(as_text=True)
        assert "<script>alert" not in body
        assert "\u202e" not in body


def test_runs_can_be_ticked_on_the_leaderboard_on_runs_and_among_the_arms_of_a_study(world):
    study = world.add_study({"name": "x"}, {"name": "y", "n": 2})
    arms = [arm["run_id"] for arm in world.client.get(f"/api/v1/studies/{study}").get_json()["arms"]]
    for page in ("/leaderboard", "/runs", f"/studies/{study}?tab=arms", "/runs?runs=x"):
        body = world.client.get(page).get_data(as_text=True)
        assert 'id="selected-runs" method="get" action="/overlay"' in body
        for run_id in arms:
            assert re.search(rf'<input[^>]* name="runs" value="{run_id}" form="selected-runs"', body)


def test_the_runs_of_an_overlay_are_ticked_on_the_list_that_it_leads_back_to(world, three):
    body = world.client.get(address(*three[:2])).get_data(as_text=True)
    back = re.search(r'<a class="button" href="(/runs\?[^"]+)">Choose runs', body)[1].replace("&amp;", "&")
    ticked = re.findall(r'name="runs" value="([^"]+)"[^>]* checked', world.client.get(back).get_data(as_text=True))
    assert set(ticked) == set(map(str, three[:2]))


def test_only_two_runs_have_the_parts_of_a_comparison(world, three):
    parts = ("Answer at", "Tasks that differ")
    pair, many = (text_of(world.client.get(address(*runs, budget=6))) for runs in (three[:2], three))
    assert all(part in pair for part in parts)
    assert not any(part in many for part in parts)
    assert f"/overlay/{three[0]},{three[2]}?budget=6" in world.client.get(address(*three, budget=6)).get_data(
        as_text=True
    )


def colour(body: str, key: str) -> str:
    """The colour of the curve with this key, as its class."""
    (classes,) = set(re.findall(rf'<path class="curve first ([^"]+)"[^>]* data-curve="{key}"', body))
    return classes.split()[0]


def test_each_run_has_its_own_colour_which_stays_at_every_budget(world):
    runs = [world.add_run(f"run {i}", skill=skill, limit=8) for i, skill in enumerate((0.9, 0.1, 0.5, 0.7))]

    def find_colours(budget: int) -> list[str]:
        board = world.client.get(f"/leaderboard?budget={budget}").get_data(as_text=True)
        every = world.client.get(address(*runs, budget=budget)).get_data(as_text=True)
        return [*(colour(board, str(run_id)) for run_id in runs), *(colour(every, f"line-{one}") for one in "ABCD")]

    assert find_colours(2) == find_colours(9)
    assert len(set(find_colours(2)[:4])) == len(set(find_colours(2)[4:])) == len(runs)


def test_a_run_that_is_shown_to_be_worse_than_the_baseline_run_is_called_so(world):
    strong, weak = (world.add_run(name, skill=skill, limit=100) for name, skill in (("strong", 0.9), ("weak", 0.1)))
    labels = re.findall(r'<span class="sub">(better|worse)</span>', world.client.get(address(strong, weak)).text)
    assert labels == ["worse", "worse"]
    labels = re.findall(r'<span class="sub">(better|worse)</span>', world.client.get(address(weak, strong)).text)
    assert labels == ["better", "better"]
