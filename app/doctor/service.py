"""What works of the service: database, broker, workers, models, and room on its disks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from app.core.broker.broker import create_broker
from app.core.db import migrate
from app.core.db.database import Database, summarize_error
from app.core.errors import UnavailableError
from app.core.observability import redact_text
from app.core.settings import Settings
from app.doctor.finding import Finding
from app.language_models import service
from app.monitoring import health
from decoding.models import fetch
from decoding.models.progress import format_bytes
from kernels.cache import cache_folder

DEMO = "qwen2.5-coder-0.5b"  # the model of `make demo`
FEW_BYTES = 1_000_000_000
UPGRADE = "Run `bassline db upgrade`."


def check_database(settings: Settings) -> Iterator[Finding]:
    """Whether the database can be reached and written, and its schema."""
    found = Database(settings.effective_database_url)
    name = make_url(found.url).render_as_string()
    if found.file and not found.file.exists():
        yield Finding("database", "ok", f"{found.file} is made at the first use")
        return
    try:
        at, head = migrate.get_current_revision(found), migrate.get_newest_revision()
        yield Finding("database", "ok", name)
        yield _check_schema(at, head, upgraded_at_start=found.is_sqlite)
        if at is not None:
            _try_to_write(found)
    except UnavailableError as error:
        yield Finding("database", "fail", str(error), "Start the server, or set BASSLINE_DATABASE_URL.")
    except DBAPIError as error:
        yield Finding(
            "database", "fail", f"cannot be written: {summarize_error(error)}", "Give the user the right to write it."
        )
    finally:
        found.dispose()


def check_broker(settings: Settings) -> Iterator[Finding]:
    """Whether the broker answers."""
    if settings.embedded:
        yield Finding("broker", "ok", "embedded: in the process of `bassline serve` or `bassline eval`")
        return
    fault, url = create_broker(settings).find_fault(), redact_text(settings.broker_url)
    if fault:
        yield Finding("broker", "fail", f"{url} {fault}", "Start Redis, or set BASSLINE_BROKER_URL.")
    else:
        yield Finding("broker", "ok", url)


def check_workers(settings: Settings) -> Iterator[Finding]:
    """Whether workers process submitted runs."""
    if settings.embedded:
        yield Finding("workers", "ok", "embedded: in the process of `bassline serve` or `bassline eval`")
        return
    found = Database(settings.effective_database_url)
    try:
        fault = health.NOT_ASKED if health.find_database_fault(found) else health.find_workers_fault(found)
    finally:
        found.dispose()
    if fault:
        yield Finding("workers", "fail", fault, "Start `bassline worker`, or repair the parts above.")
    else:
        yield Finding("workers", "ok", "every queue is consumed")


def _check_schema(at: str | None, head: str, *, upgraded_at_start: bool) -> Finding:
    if at == head:
        return Finding("schema", "ok", at)
    if at is not None and not migrate.is_known(at):
        return Finding("schema", "fail", f"{at} is of another version, not this one's {head}", "Install that version.")
    what = f"{at or 'empty'}, this version needs {head}"
    if upgraded_at_start:
        return Finding("schema", "warn", f"{what}: the next start upgrades it", f"Make a copy first. {UPGRADE}")
    return Finding("schema", "fail", what, UPGRADE)


def _try_to_write(found: Database) -> None:
    """Updates the schema's revision to itself and rolls back. Raises DBAPIError if the database refuses writes."""
    with found.connect() as connection:
        if found.is_sqlite:
            connection.exec_driver_sql("PRAGMA busy_timeout=2000")
        connection.execute(text("UPDATE alembic_version SET version_num = version_num"))
        connection.rollback()


def check_models(settings: Settings) -> Iterator[Finding]:
    """The models in the cache: complete, damaged, or not downloaded yet."""
    folder = cache_folder(settings.cache_dir)
    absent: list[str] = []
    for model in service.list_models():
        info = fetch.find_cached(model.ref, folder)
        place = folder / "models" / model.slug
        if info is not None:
            what = f"{model.ref}: whole, {format_bytes(info.bytes)}, sha256 {info.sha256[:12]}"
            yield Finding("models", "ok", what)
        elif place.exists():
            what = f"{model.ref}: files are missing or have another size than was recorded"
            yield Finding("models", "warn", what, f"Delete {place}, then run `bassline models pull {model.ref}`.")
        elif model.ref == DEMO:
            what = f"{model.ref}: not here; its first use fetches {format_bytes(model.bytes)}"
            yield Finding("models", "warn", what, f"Run `bassline models pull {model.ref}`.")
        else:
            absent.append(model.ref)
    if absent:
        yield Finding("models", "ok", f"not here, fetched at first use: {', '.join(absent)}")


def check_disks(settings: Settings) -> Iterator[Finding]:
    """Whether the folders of cache and data can be written, and their free space."""
    cache = cache_folder(settings.cache_dir)
    demo = next(model for model in service.list_models() if model.ref == DEMO)
    needed = demo.bytes + fetch.BYTES_PER_PARAMETER * demo.n_parameters + fetch.OTHER_BYTES
    if fetch.find_cached(DEMO, cache):
        needed = 0
    yield _check_disk("cache", cache, needed, "BASSLINE_CACHE_DIR", written=needed > 0)
    file = Database(settings.effective_database_url).file
    if file is not None:
        yield _check_disk("data", file.parent, health.LEAST_BYTES, "BASSLINE_DATA_DIR", written=True)


def _check_disk(part: str, folder: Path, needed: int, variable: str, *, written: bool) -> Finding:
    """`written`: a run writes there."""
    place = next(path for path in (folder, *folder.parents) if path.is_dir())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        what = f"{folder} cannot be written: {error.strerror}"
        return Finding(part, "fail" if written else "warn", what, f"Set {variable} to a folder that can be written.")
    free = shutil.disk_usage(place).free
    what = f"{folder}: {format_bytes(free)} free"
    if free >= max(needed, FEW_BYTES):
        return Finding(part, "ok", what)
    if free >= needed:
        return Finding(part, "warn", what, f"Free some space, or set {variable} to a folder on another disk.")
    what += f", {format_bytes(needed)} are needed"
    return Finding(part, "fail", what, f"Free some space, or set {variable} to a folder on another disk.")
