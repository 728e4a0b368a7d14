"""Is the service fast with 1,000 runs and 1.3 million samples on PostgreSQL?

Fills an empty database with generated runs, requests the pages through Flask's test client one after the other, and
processes runs whose engine and sandbox take no time. Without --database it starts a private PostgreSQL
and removes it afterwards. The samples' token arrays are empty, as in imported samples; no page reads them.

    python -m benchmarks.service --json service.json
    python -m benchmarks.service --database postgresql+psycopg://me@/empty
"""

from __future__ import annotations

import contextlib
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from app.core import observability
from app.core.context import Context, make_context
from app.core.db import migrate
from app.core.errors import BadInputError, BasslineError
from app.core.settings import Settings, load_settings
from benchmarks import _postgres, _service_jobs, _service_pages, _service_rows
from benchmarks._report import Report, build_parser, describe_machine, print_table

JOB_TARGET_MS = 20.0


def measure(database_url: str, *, runs: int, requests: int, tasks: int, rounds: int) -> Report:
    """Return the report on a database that is empty or that an earlier call filled. Raises BasslineError."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ctx = make_context(Settings(_env_file=None, data_dir=folder, database_url=database_url, rate_limit=""))
        if ctx.database.is_sqlite:
            raise BadInputError("--database is SQLite: give a PostgreSQL database, postgresql+psycopg://USER@HOST/NAME")
        try:
            with ctx.database.connect() as connection:
                _service_rows.refuse_foreign_tables(connection)
            migrate.upgrade(ctx.database)
            began = time.perf_counter()
            _service_rows.fill(ctx, runs, _print_progress)
            filled_s = time.perf_counter() - began
            report = Report("service", describe_machine(), _describe_settings(ctx, requests, tasks, rounds))
            report.figures["fill_s"] = filled_s
            _measure_pages(report, ctx, requests)
        finally:
            ctx.database.dispose()
        for database, url in (("postgresql", database_url), ("sqlite", f"sqlite:///{folder / 'jobs.db'}")):
            times = _service_jobs.measure_ms_per_task(url, folder, tasks, rounds)
            report.figures[f"jobs.{database}.ms_per_task.median"] = statistics.median(times)
            report.figures[f"jobs.{database}.ms_per_task.max"] = max(times)
    return report


def _measure_pages(report: Report, ctx: Context, requests: int) -> None:
    for page, times, size, queries in _service_pages.measure(ctx, requests):
        middle, high = _service_pages.compute_percentiles(times)
        report.figures[f"{page.name}.p50_ms"], report.figures[f"{page.name}.p95_ms"] = middle, high
        report.rows.append(
            {
                "page": page.name,
                "p50 ms": middle,
                "p95 ms": high,
                "target": page.target_ms or "",
                "kB": round(size / 1000),
                "queries": queries,
            }
        )
        _print_progress(f"{page.name}: p95 {high:.1f} ms")


def _describe_settings(ctx: Context, requests: int, tasks: int, rounds: int) -> dict[str, Any]:
    counts = ("runs", "samples")
    with ctx.database.engine.connect() as connection:
        return {
            **{table: connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one() for table in counts},
            "database_mb": connection.exec_driver_sql(
                "SELECT pg_database_size(current_database()) / 1000000"
            ).scalar_one(),
            "postgresql": connection.exec_driver_sql("SHOW server_version").scalar_one(),
            "python": platform.python_version(),
            "requests": requests,
            "job_tasks": tasks,
            "job_rounds": rounds,
        }


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Print the tables and write JSON if asked; return 0."""
    parser = build_parser("service", __doc__)
    parser.add_argument("--database", metavar="URL", help="a PostgreSQL database, empty or filled by this benchmark")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=100, help="of each page")
    options = parser.parse_args(argv)
    observability.configure(load_settings())
    own = contextlib.nullcontext(options.database) if options.database else _postgres.run_cluster()
    try:
        with own as url:
            report = measure(url, runs=options.runs, requests=options.requests, tasks=164, rounds=3)
    except (BasslineError, _postgres.NotInstalledError) as error:
        parser.exit(2, f"{error}\n")
    settings = report.settings
    print(
        f"{report.device}; PostgreSQL {settings['postgresql']}, {settings['runs']} runs, "
        f"{settings['samples']} samples, {settings['database_mb']} MB; {settings['requests']} requests of each page"
    )
    print_table(report.rows)
    print(f"\nJob core over {settings['job_tasks']} tasks, ms per task (target {JOB_TARGET_MS:g}):")
    for database in ("postgresql", "sqlite"):
        middle, most = (report.figures[f"jobs.{database}.ms_per_task.{name}"] for name in ("median", "max"))
        print(f"  {database}: {middle:.1f} (at most {most:.1f} of {settings['job_rounds']} runs)")
    report.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
