"""The command line over the context of the test, and a study that was worked to its end by the fakes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from app.cli.main import cli
from app.core.context import Context
from app.studies.repository import list_studies

GRID = (
    "--target",
    "smollm2-135m",
    "--dataset",
    "additions",
    "--drafter",
    "none,sibling",
    "--n",
    "1,2",
    "--budget",
    "5",
)


@pytest.fixture
def bassline(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command line; returns click's result."""
    monkeypatch.setattr("app.cli.common.make_context", lambda: ctx)
    monkeypatch.setattr("app.cli.live_progress.BEAT_S", 0.1)

    def run(*words: object, **more: object) -> Result:
        ctx.stopping.clear()
        return CliRunner().invoke(cli, [str(word) for word in words], **more)

    return run


@pytest.fixture
def ended(bassline: Callable[..., Result], additions: str) -> dict:
    """The document of a study of four arms over three tasks."""
    result = bassline("study", "run", *GRID, "--name", "which", "--json", "-")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def stored(ctx: Context) -> Callable[[], list[str]]:
    """The names of the studies in the database."""

    def read() -> list[str]:
        with ctx.database.read() as session:
            return [study.name for study in list_studies(session)]

    return read
