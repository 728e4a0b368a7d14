"""The model cache, and free space on the disks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from app.core.db.database import Database
from app.core.settings import Settings
from app.doctor.finding import Finding
from app.language_models import service
from app.monitoring.health import LEAST_BYTES
from decoding.models import fetch
from decoding.models.progress import format_bytes
from decoding.models.registry import KnownModel
from kernels.cache import cache_folder

DEMO = "qwen2.5-coder-0.5b"  # the model of `make demo`
FEW_BYTES = 1_000_000_000


def models(settings: Settings) -> Iterator[Finding]:
    """The models in the cache: complete, damaged, or not downloaded yet."""
    folder = cache_folder(settings.cache_dir)
    absent: list[str] = []
    for model in service.list_models():
        info = fetch.cached(model.ref, folder)
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


def disks(settings: Settings) -> Iterator[Finding]:
    """Whether the folders of cache and data can be written, and their free space."""
    cache = cache_folder(settings.cache_dir)
    demo = next(model for model in service.list_models() if model.ref == DEMO)
    needed = 0 if fetch.cached(DEMO, cache) else _bytes_to_fetch(demo)
    yield _disk("cache", cache, needed, "BASSLINE_CACHE_DIR", written=needed > 0)
    file = Database(settings.database).file
    if file is not None:
        yield _disk("data", file.parent, LEAST_BYTES, "BASSLINE_DATA_DIR", written=True)


def _disk(part: str, folder: Path, needed: int, variable: str, *, written: bool) -> Finding:
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


def _bytes_to_fetch(model: KnownModel) -> int:
    return model.bytes + fetch.BYTES_PER_PARAMETER * model.n_parameters + fetch.OTHER_BYTES
