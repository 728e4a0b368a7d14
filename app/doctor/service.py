"""What works of the service: database, broker, workers, models, and room on its disks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy.engine import make_url

from app.core.broker.broker import create_broker
from app.core.db import migrate
from app.core.db.database import Database
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


def check_service(settings: Settings) -> Iterator[Finding]:
    """Database, broker and workers, as readiness sees them."""
    database = Database(settings.effective_database_url)
    try:
        yield (found := _check_database(database))
        if settings.embedded:
            for part in ("broker", "workers"):
                yield Finding(part, "ok", "embedded: in the process of `bassline serve` or `bassline eval`")
            return
        fault, url = create_broker(settings).find_fault(), redact_text(settings.broker_url)
        yield _judge("broker", fault and f"{url} {fault}", url, "Start Redis, or set BASSLINE_BROKER_URL.")
        is_readable = found.status == "ok" and not (database.file and not database.file.exists())
        fault = health.find_workers_fault(database) if is_readable else health.NOT_ASKED
        yield _judge("workers", fault, "every queue is consumed", "Start `bassline worker`, or repair the parts above.")
    finally:
        database.dispose()


def _check_database(database: Database) -> Finding:
    if database.file and not database.file.exists():
        return Finding("database", "ok", f"{database.file} is made at the first use")
    try:
        revision = migrate.get_current_revision(database)
    except UnavailableError as error:
        return Finding("database", "fail", str(error), "Start the server, or set BASSLINE_DATABASE_URL.")
    fault = health.find_database_fault(database)
    if fault and database.is_sqlite and (revision is None or migrate.is_known(revision)):
        return Finding("database", "warn", f"{fault}; the next start does it", "Make a copy first.")
    if database.file and not os.access(database.file, os.W_OK):
        return Finding("database", "fail", f"{database.file} cannot be written", "Give the user the right to write it.")
    fault = fault or health.find_storage_fault(database)
    return _judge("database", fault, make_url(database.url).render_as_string())


def _judge(part: str, fault: str | None, good: str, remedy: str = "") -> Finding:
    return Finding(part, "fail", fault, remedy) if fault else Finding(part, "ok", good)


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
