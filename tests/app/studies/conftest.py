"""The command line over the context of the test, and a study that was worked to its end by the fakes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

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


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder for databases, and what was printed when they were made, by name."""
    return tmp_path_factory.mktemp("made"), {}


@pytest.fixture
def print_once(ctx: Context, additions: str, _made: tuple[Path, dict[str, str]]) -> Callable[..., str]:
    """Gives what a command prints over `additions`; the second time the database is as the command left it."""
    folder, printed = _made

    def run(name: str, command: Callable[[], Result]) -> str:
        template = folder / f"{name}.db"
        if name not in printed:
            result = command()
            assert result.exit_code == 0, result.output
            printed[name] = result.stdout
            copy_database(ctx.database.file, template)
        else:
            copy_database(template, ctx.database.file)
        return printed[name]

    return run


def copy_database(source: Path, target: Path) -> None:
    """Makes a SQLite database, which other connections may have open, like another one."""
    with closing(sqlite3.connect(source)) as copied, closing(sqlite3.connect(target)) as replaced:
        copied.backup(replaced)


@pytest.fixture
def ended(bassline: Callable[..., Result], print_once: Callable[..., str]) -> dict:
    """The document of a study of four arms over three tasks."""
    words = ("study", "run", *GRID, "--name", "which", "--json", "-")
    return json.loads(print_once("ended", lambda: bassline(*words)))


@pytest.fixture
def stored(ctx: Context) -> Callable[[], list[str]]:
    """The names of the studies in the database."""

    def read() -> list[str]:
        with ctx.database.read() as session:
            return [study.name for study in list_studies(session)]

    return read
