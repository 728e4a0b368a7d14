"""The sentence of a study whose clock was disturbed begins with that, wherever it is shown."""

from __future__ import annotations

import html
import re

import pytest
from click.testing import CliRunner

from app.cli.main import cli
from app.runs.clock import describe_disturbance
from app.runs.results import Figures

SAYS = "Measured on a busy machine (other programs used up to 38 %): "
ARMS = ({"name": "one", "n": 1, "limit": 24}, {"name": "four", "n": 4, "limit": 24})


@pytest.fixture(params=["study", "page", "markdown", "json"])
def read(request, world, monkeypatch):
    """Reads a study at one of the places, as text."""
    monkeypatch.setattr("app.cli.common.make_context", lambda: world.context)

    def get(address):
        return html.unescape(re.sub(r"<[^>]+>", "", world.client.get(address).get_data(as_text=True)))

    def read(study_id):
        match request.param:
            case "study":
                return CliRunner().invoke(cli, ["study", "show", str(study_id)]).output
            case "page":
                return get(f"/studies/{study_id}")
            case "markdown":
                return get(f"/api/v1/studies/{study_id}/export?format=markdown")
            case _:
                return world.client.get(f"/api/v1/studies/{study_id}").json["disturbance"]

    return read


def test_it_begins_with_the_disturbance(world, read):
    study_id = world.add_study(ARMS[0], ARMS[1] | {"lost": 0.38})
    assert SAYS in read(study_id)


def test_it_begins_with_nothing_where_nothing_disturbed_it(world, read):
    assert "Measured on a busy machine" not in read(world.add_study(*ARMS))


def figures(**values):
    return Figures(clock_marks=values.pop("marks", ("a mark",)), **values)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([figures(tasks_disturbed=n, lost_to_others_max=lost) for n, lost in ((2, 0.1), (1, 0.38))], SAYS),
        ([Figures(clock_marks=(), tasks_disturbed=0, lost_to_others_max=0.04)], ""),
        ([Figures()], ""),
        ([figures(tasks_disturbed=0, clock_drift=0.2)],
         "Measured on an unsteady machine (its speed changed by up to 20 %): "),
        ([figures(tasks_disturbed=1, lost_to_others_max=0.5, clock_drift=0.2)],
         "Measured on a busy machine (other programs used up to 50 %, its speed changed by up to 20 %): "),
        ([figures(tasks_disturbed=1, lost_to_others_max=0.5, marks=("In 1 of 2 tasks the hypervisor withheld up",))],
         "Measured on a shared machine (the hypervisor withheld up to 50 %): "),
    ],
)  # fmt: skip
def test_what_disturbed_the_runs_is_named(runs, said):
    assert describe_disturbance(runs) == said
