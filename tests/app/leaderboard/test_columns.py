"""Every column of the leaderboard reaches the page, REST, the command line and About; no field is ever lost."""

from __future__ import annotations

import html
import json

import pytest
from click.testing import CliRunner

from app.cli.main import cli
from app.leaderboard.columns import COLUMNS, BoardRow
from app.leaderboard.entries import LeaderboardCache
from app.leaderboard.service import rank_runs
from app.web.http.openapi import build_openapi_document

# What programs read today. Names may be added here, never removed.
# fmt: off
REST = {
    "run", "name", "state", "target", "drafter", "n", "dataset", "rank", "label", "budget_s", "capped",
    "pass_first", "pass_first_interval", "pass_all", "pass_all_interval", "ranking_loss", "n_tasks",
    "dataset_tasks", "in_guest_tasks", "in_guest_samples", "in_guest_passed", "first_finished_p50_s",
    "first_finished_p95_s", "ms_per_token", "mean_acceptance_length", "device", "fingerprint", "created_at",
    "tokens_per_s",
}
# fmt: on


@pytest.fixture
def bassline(world, monkeypatch):
    """Calls the command line on the database of `world`."""
    monkeypatch.setenv("BASSLINE_DATABASE_URL", world.context.settings.effective_database_url)
    return lambda *words: CliRunner().invoke(cli, words, catch_exceptions=False).stdout


def test_every_column_is_on_the_page_in_rest_the_command_line_and_about(world, bassline):
    world.add_run("whole", limit=None, n=2)
    with world.context.database.read() as session:
        (row,) = rank_runs(LeaderboardCache().read(session))
    page = html.unescape(world.client.get("/leaderboard?budget=10").get_data(as_text=True))
    about = html.unescape(world.client.get("/about").get_data(as_text=True))
    (answer,) = world.client.get("/api/v1/leaderboard").json["rows"]
    (printed,) = json.loads(bassline("leaderboard", "--json", "-"))
    table = bassline("leaderboard")
    schema = build_openapi_document(world.app)["components"]["schemas"]["BoardRow"]["properties"]
    for column in COLUMNS:
        assert f">{column.label}</" in page
        assert f'data-label="{column.label}"' in page
        assert column.text(row) in page
        assert f'<dt id="{column.key}">{column.label}</dt>' in about
        assert column.about in about
        if column.printed:
            assert column.label in table
            assert f"{column.text(row)} {column.note(row)}".strip() in table
    for name in BoardRow.model_fields:
        assert name in schema
        assert answer[name] == printed[name]


def test_programs_still_get_every_field_they_read(world):
    world.add_run("whole", limit=None, n=1)
    (answer,) = world.client.get("/api/v1/leaderboard").json["rows"]
    assert answer.keys() >= REST
