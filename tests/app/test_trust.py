"""A verdict that a program could have forged is shown as such and counted apart, wherever figures are shown."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

import pytest
from click.testing import CliRunner

from app.cli.main import cli
from app.site.factory import create_app
from tests.fakes import FakeGrader

EVAL = ("eval", "--target", "smollm2-135m", "--dataset", "additions", "--n", "2", "--budget", "5", "--name", "mixed")


class PartlyInGuest(FakeGrader):
    """The test of add/1 cannot be judged from outside."""

    def judge_many(self, items, workers):
        for position, verdict in super().judge_many(items, workers):
            inside = "Sum 1." in items[position][1].prompt
            yield position, dataclasses.replace(verdict, trust="in-guest" if inside else "proxy")


@pytest.fixture
def bassline(ctx, additions, monkeypatch):
    ctx.make_grader = PartlyInGuest
    monkeypatch.setattr("app.cli.common.make_context", lambda: ctx)
    return lambda *words: CliRunner().invoke(cli, list(words))


def test_passes_that_could_be_forged_are_counted_and_the_shares_stand_without_them_too(bassline):
    result = bassline(*EVAL, "--json", "-")
    figures = json.loads(result.stdout)["figures"]
    assert (figures["in_guest_tasks"], figures["in_guest_samples"], figures["in_guest_passed"]) == (1, 2, 1)
    assert (figures["pass_first"], figures["pass_first_proxy"]) == (1.0, pytest.approx(2 / 3))
    assert (figures["pass_all"], figures["pass_all_proxy"]) == (1.0, pytest.approx(2 / 3))
    shown = " ".join(bassline("runs", "show", "mixed").stdout.split())
    assert "2 of 6 results, in 1 of 3 tasks, could be forged" in shown
    assert "could be forged; 1 passed" in shown
    assert "Pass@First 67 %" in shown


def test_every_export_says_how_each_verdict_was_given(bassline, ctx):
    bassline(*EVAL)
    rows = [json.loads(line) for line in bassline("runs", "export", "mixed").stdout.splitlines()]
    assert {(r["task_id"], r["trust"]) for r in rows} == {
        ("add/0", "proxy"),
        ("add/1", "in-guest"),
        ("add/2", "proxy"),
    }
    assert all(len(r["prompt_sha256"]) == 64 for r in rows)
    table = csv.DictReader(io.StringIO(bassline("runs", "export", "mixed", "--format", "csv").stdout))
    assert [r["trust"] for r in table] == [r["trust"] for r in rows]
    (row,) = json.loads(bassline("leaderboard", "--json", "-").stdout)
    assert (row["in_guest_tasks"], row["in_guest_samples"], row["in_guest_passed"]) == (1, 2, 1)
    client = create_app(ctx).test_client()
    (board,) = client.get("/api/v1/leaderboard").json["rows"]
    assert board["in_guest_passed"] == 1
    assert client.get("/api/v1/runs").json["runs"][0]["figures"]["in_guest_passed"] == 1


def test_where_no_verdict_could_be_forged_nothing_is_said(bassline, ctx):
    ctx.make_grader = FakeGrader
    figures = json.loads(bassline(*EVAL, "--json", "-").stdout)["figures"]
    assert figures["in_guest_samples"] == 0
    assert figures["pass_first_proxy"] == figures["pass_first"]
    assert "in-guest" not in bassline("runs", "show", "mixed").stdout
