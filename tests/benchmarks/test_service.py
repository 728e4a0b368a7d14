"""`bassline bench service` on a small database: whole reports, and no touching of what it did not make."""

from __future__ import annotations

import gc
import json

import pytest
from sqlalchemy import func, select

from app.core.context import make_context
from app.core.db.database import Database
from app.core.settings import Settings
from app.samples.models import Sample
from benchmarks import _postgres, _service_jobs, _service_pages, _service_rows, service


@pytest.fixture(scope="module")
def url():
    if _postgres.find_programs() is None:
        pytest.skip("PostgreSQL is not installed (initdb not found)")
    with _postgres.run_cluster() as url:
        yield url
    gc.unfreeze()


@pytest.fixture
def small(monkeypatch):
    """Short runs of the job core, pages asked for a few times."""
    monkeypatch.setattr(_service_pages, "WARM_UP", 1)
    full = _service_jobs.measure_ms_per_task
    monkeypatch.setattr(
        _service_jobs, "measure_ms_per_task", lambda url, folder, tasks, rounds: full(url, folder, 2, 1)
    )


@pytest.mark.thorough
def test_it_fills_a_database_measures_every_page_and_finds_it_filled_again(url, small, tmp_path, capsys):
    file = tmp_path / "service.json"
    asked = ["--database", url, "--runs", "6", "--requests", "1", "--json", str(file)]
    assert service.main(asked) == 0
    report = json.loads(file.read_text())
    assert report["settings"]["runs"] == 6
    assert 6 * 20 * 8 <= report["settings"]["samples"] <= 6 * 164 * 8
    pages = {row["page"]: row for row in report["rows"]}
    # Runs, their curves, studies, datasets of own code; and for the first answer its runs with their tasks, what these
    # took, samples and calibrations.
    assert pages["first_page"]["queries"] == 9
    assert all(report["figures"][f"{page}.p95_ms"] > 0 for page in pages)
    assert all(report["figures"][f"jobs.{name}.ms_per_task.median"] > 0 for name in ("postgresql", "sqlite"))
    assert "Job core" in capsys.readouterr().out

    ctx = make_context(Settings(_env_file=None, data_dir=tmp_path, database_url=url))
    _service_rows.fill(ctx, 6, lambda line: None)
    with ctx.database.read() as session:
        assert session.scalar(select(func.count()).select_from(Sample)) == report["settings"]["samples"]
    ctx.database.dispose()
    with pytest.raises(SystemExit) as stopped:
        service.main(["--database", url, "--runs", "7"])
    assert stopped.value.code == 2
    assert "the database holds 6 generated runs" in capsys.readouterr().err


def test_a_database_with_anything_else_is_refused(url, capsys):
    name = "strange"
    admin = Database(url)
    with admin.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    admin.dispose()
    strange = url.replace("/postgres?", f"/{name}?")
    database = Database(strange)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE invoices (id integer)")
    database.dispose()
    with pytest.raises(SystemExit) as stopped:
        service.main(["--database", strange])
    assert stopped.value.code == 2
    assert "the database holds the table invoices: give --database an empty one" in capsys.readouterr().err


def test_a_database_that_is_no_postgresql_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        service.main(["--database", f"sqlite:///{tmp_path / 'x.db'}"])
    assert stopped.value.code == 2
    assert "--database is SQLite" in capsys.readouterr().err
