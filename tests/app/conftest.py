"""An application context over a fresh SQLite database, with the fakes of tests/fakes.py behind the two ports."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.core.context import Context
from app.core.db.database import Database
from app.core.events.bus import MemoryBus
from app.core.settings import Settings
from app.datasets.service import import_file
from app.runs.schemas import RunSpec
from tests.fakes import RIGHT, FakeEngine, FakeGrader


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def ctx(tmp_path: Path, engine: FakeEngine, migrated: Path) -> Iterator[Context]:
    settings = Settings(_env_file=None, data_dir=tmp_path / "data", reap_interval_s=0.2)
    settings.data_dir.mkdir()
    shutil.copy(migrated, settings.data_dir / "bassline.db")
    database = Database(settings.effective_database_url)
    yield Context(
        settings, database, MemoryBus(), load_engine=lambda config, on_progress: engine, make_grader=FakeGrader
    )
    database.dispose()


@pytest.fixture
def additions(ctx: Context, tmp_path: Path) -> str:
    """The name of an imported dataset of four tasks, `add/0` to `add/3`; the last one's own solution fails."""
    rows = [
        {
            "task_id": f"add/{i}",
            "prompt": f'def add(a, b):\n    """Sum {i}."""\n',
            "entry_point": "add",
            "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
            "canonical_solution": RIGHT if i < 3 else "    return 'broken'\n",
        }
        for i in range(4)
    ]
    file = tmp_path / "additions.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return import_file(ctx, file).name


@pytest.fixture
def spec(additions: str) -> Callable[..., RunSpec]:
    """Makes a run specification over `additions`."""
    return lambda **changes: RunSpec(
        **{"target": "smollm2-135m", "dataset": additions, "n": 2, "budget_s": 5, **changes}
    )


@pytest.fixture
def bassline(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command line over the test's context; returns click's result."""
    for module in ("app.cli.common", "app.cli.models", "app.cli.admin"):
        monkeypatch.setattr(f"{module}.make_context", lambda: ctx)

    def run(*words: object, **options: Any) -> Result:
        from app.cli.main import cli

        ctx.stopping.clear()
        return CliRunner().invoke(cli, [str(word) for word in words], **options)

    return run
