"""Command line, page, Markdown, JSON and the gate of `runs compare` name the same arm, verdict and numbers."""

from __future__ import annotations

import html
import json
import random
import re
import uuid
from itertools import combinations, pairwise

import numpy as np
import pytest
from click.testing import CliRunner

from app.cli.main import cli
from app.studies import loading
from app.studies.analysis import analyse_study
from app.studies.pages import shorten_arm_names
from app.studies.repository import get_study
from app.studies.sentences import format_verdict
from app.web.ui.units import format_interval, format_percent, format_points
from evaluation.studies.answer import BudgetAnswer
from tests.thorough import quick_first

CASES = quick_first(["reference", *range(6)], [0, 1])


@pytest.fixture
def bassline(world, monkeypatch):
    """Runs the command line over the world; returns click's result."""
    monkeypatch.setattr("app.cli.common.make_context", lambda: world.context)
    return lambda *words: CliRunner().invoke(cli, [str(word) for word in words])


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))).replace(" :", ":").replace(" .", ".")


def studies(world, case) -> list[uuid.UUID]:
    """The reference studies, or a random one of 2 to 4 arms over 12 to 100 tasks."""
    if case == "reference":
        return loading.load_reference_studies(world.context)
    dice = random.Random(case)
    spread, limit = dice.choice([0.05, 0.2, 0.4]), dice.choice([12, 40, 100])
    arms = [
        {"name": f"arm {i}", "n": i + 1, "limit": limit, "seed": dice.randrange(99),
         "skill": dice.uniform(0.5 - spread, 0.5 + spread), "pace": dice.uniform(0.5, 3.0)}
        for i in range(dice.randint(2, 4))
    ]  # fmt: skip
    return [world.add_study(*arms, name=f"study {case}")]


@pytest.mark.parametrize("case", CASES)
def test_every_surface_says_the_same(world, bassline, case):
    for study_id in studies(world, case):
        document = world.client.get(f"/api/v1/studies/{study_id}").json
        printed = json.loads(bassline("study", "show", str(study_id), "--json", "-").stdout)
        assert printed["answer"] == document["answer"]
        text = bassline("study", "show", str(study_id)).stdout
        markdown = world.client.get(f"/api/v1/studies/{study_id}/export?format=markdown").text.replace("\\", "")
        assert document["sentence"] in text
        assert document["sentence"] in markdown
        with world.context.database.read() as session:
            study = get_study(session, study_id)
            labels, runs = shorten_arm_names(study), {arm.name: str(arm.run_id) for arm in study.arms}
        for row in document["answer"]:
            if row["use"] is not None:
                check_row(world, study_id, row, markdown, labels, document["study"]["tasks_common"])
                check_pair(world, bassline, row, runs)


def check_row(world, study_id, row, markdown, labels, n) -> None:
    """The row in the report and on the page, and the heading of the page at its budget."""
    answer = BudgetAnswer(**{name: row[name] for name in BudgetAnswer.__dataclass_fields__})
    bounds = " to ".join(format_points(limit, n) for limit in row["difference_interval"])
    share, verdict = format_percent(row["use_pass_first"], n), format_verdict(answer)
    limits = format_interval(row["use_interval"], n)
    cells = (row["use"], f"{share} ({limits})", format_percent(row["use_pass_all"], n), verdict, row["against"])
    assert " | ".join((*cells, f"{format_points(row['difference'], n)} ({bounds})")) in markdown
    page = text_of(world.client.get(f"/studies/{study_id}?budget={row['budget_s']}").get_data(as_text=True))
    word = "the best so far is" if row["verdict"] == "undecided" else "use"
    assert f"within {row['budget_s']:g} s {word} {labels[row['use']]}: {share} right ({limits})." in page
    assert f"{verdict} {labels[row['against']]} {format_points(row['difference'], n)} ({bounds})" in page


def check_pair(world, bassline, row, runs) -> None:
    """The same pair, compared as two runs: `use` against `against`."""
    use, against = runs[row["use"]], runs[row["against"]]
    address = f"/api/v1/compare?reference={against}&other={use}&budget={row['budget_s']}"
    pair = world.client.get(address).json
    assert pair["pass_first"]["delta"] == row["difference"]
    assert [pair["pass_first"]["low"], pair["pass_first"]["high"]] == row["difference_interval"]
    assert pair["conclusion"]["verdict"] == row["verdict"]
    assert pair["conclusion"]["tasks_to_decide"] == row["tasks_to_decide"]
    options = ("--budget", str(row["budget_s"]), "--fail-if-worse", "--json", "-")
    forward = bassline("runs", "compare", against, use, *options)
    assert json.loads(forward.stdout)["conclusion"] == pair["conclusion"]
    assert (forward.exit_code == 3) == pair["conclusion"]["worse"] is False
    backward = bassline("runs", "compare", use, against, *options)
    assert (backward.exit_code == 3) == (row["verdict"] == "better")


@pytest.mark.thorough
def test_no_verdict_of_the_reference_studies_flickers(world):
    """A verdict holds for a quarter of the budget or more, whatever the next one is."""
    for study_id in loading.load_reference_studies(world.context):
        with world.context.database.read() as session:
            found = analyse_study(session, get_study(session, study_id)).statistics
        budgets = np.geomspace(0.5, found.budgets[-1], 300).tolist()
        for a, b in combinations(range(len(found.curves)), 2):
            pairs = [found.compared.decide("first", a, b, min(budget, found.budgets[-1])) for budget in budgets]
            starts = [later.from_s for earlier, later in pairwise(pairs) if earlier.verdict != later.verdict]
            assert all(later / earlier >= 1.25 - 1e-9 for earlier, later in pairwise(starts))


def test_a_margin_is_asked_for_alike(world, bassline):
    (study_id,) = studies(world, 3)
    printed = json.loads(bassline("study", "show", str(study_id), "--margin", "60", "--json", "-").stdout)
    document = world.client.get(f"/api/v1/studies/{study_id}?margin=60").json
    assert printed["answer"] == document["answer"]
    assert {row["margin"] for row in document["answer"]} == {0.6}
    page = text_of(world.client.get(f"/studies/{study_id}?margin=60&budget=10").get_data(as_text=True))
    assert "as good within 60 points" in page
    assert "as good within 60 points" in document["sentence"]


@pytest.mark.parametrize(("name", "value"), [("budget", "10.5"), ("budget", "1e9"), ("margin", "0"), ("margin", "nan")])
def test_what_was_not_measured_and_no_number_are_refused(world, bassline, name, value):
    (study_id,) = studies(world, 1)
    problem = world.client.get(f"/api/v1/studies/{study_id}?{name}={value}")
    assert problem.status_code in (400, 422)
    assert name in problem.text
    assert bassline("study", "show", str(study_id), f"--{name}", value).exit_code == 2
    page = text_of(world.client.get(f"/studies/{study_id}?{name}={value}").get_data(as_text=True))
    assert f"{name.capitalize()} is " in page
    assert "On 40 tasks within 5 s" in page or "On 12 tasks within 5 s" in page or "On 100 tasks within 5 s" in page
