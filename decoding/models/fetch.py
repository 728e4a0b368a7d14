"""Makes a model ready to load: finds it in the cache, or downloads, checks and converts it. No torch here.

Models use five folders: `models/` with one folder per ready model, each with its `bassline.json`; `partial/` with
unfinished work, which is resumed after an interruption; `gguf/` with files for other engines; `locks/`; and
`incoming/`, where users of machines without a network put files, named as in the registry, that are used instead of a
download. A model is moved into `models/` when it is complete, so that no other process sees a part of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from filelock import Timeout

from decoding.models import conversion, manifest, registry, sources
from decoding.models.cache_folders import make_lock, remove_folders
from decoding.models.errors import (
    ModelError,
    NoSourceError,
    SourceError,
    WrongHashError,
)
from decoding.models.manifest import ModelInfo
from decoding.models.progress import Meter, OnProgress, Progress, count_folder_bytes, format_bytes
from decoding.models.registry import HubModel, KnownModel, LocalFolder, LocalGguf, ModelEntry
from kernels.cache import cache_folder

BYTES_PER_PARAMETER = 2
OTHER_BYTES = 200_000_000  # tokenizer, configuration, and one wheel while its content is copied
GGUF_GROWTH = 4  # bfloat16 weights take four times the space of 4-bit blocks


def ensure(ref: str, cache_dir: Path | str | None = None, on_progress: OnProgress | None = None) -> ModelInfo:
    """Return the model `ref`, ready to be loaded from its folder: safetensors, tokenizer and configuration.

    A model in the cache needs no network and no hashing. Any other is fetched first, with reports to `on_progress`,
    which may be called from a second thread and must not raise. A call resumes the work of an interrupted one, and
    if several processes want a model, one works and the others wait. Raises `ModelError`.
    """
    entry, cache = registry.resolve(ref), cache_folder(cache_dir)
    info = _find_cached(entry, cache)
    if info is None:
        with _lock(entry, cache, on_progress):
            info = _find_cached(entry, cache) or _prepare(entry, cache, on_progress)
    return info


def ensure_gguf(ref: str, cache_dir: Path | str | None = None, on_progress: OnProgress | None = None) -> Path:
    """Return the GGUF file of a registered model, or of a reference to one, for engines that read such files.

    Fetches it into `gguf/` of the cache first where it is not there. Raises `ModelError`.
    """
    entry, cache = registry.resolve(ref), cache_folder(cache_dir)
    if isinstance(entry, LocalGguf):
        return entry.path
    if not isinstance(entry, KnownModel):
        raise ModelError(f"{entry.name} has no GGUF file: give the path of one.")
    final = cache / "gguf" / entry.slug / entry.filename
    with _lock(entry, cache, on_progress):
        if not final.exists():
            staging = cache / "partial" / entry.slug
            staging.mkdir(parents=True, exist_ok=True)
            _require_space(cache, entry.name, entry.bytes + OTHER_BYTES - count_folder_bytes(staging))
            incoming = cache / "incoming" / entry.filename
            fetched, _ = _try_sources(entry, incoming, staging, on_progress)
            final.parent.mkdir(parents=True, exist_ok=True)
            if fetched == incoming:
                return incoming
            fetched.replace(final)
            shutil.rmtree(staging, ignore_errors=True)
    return final


def find_cached(ref: str, cache_dir: Path | str | None = None) -> ModelInfo | None:
    """Return the record of the model `ref` if it is ready, else None. Raises `UnknownModelError`."""
    return _find_cached(registry.resolve(ref), cache_folder(cache_dir))


def verify(ref: str, cache_dir: Path | str | None = None, on_progress: OnProgress | None = None) -> ModelInfo:
    """Hash all files of the model `ref` and compare them with the hashes recorded when they were written.

    Raises `ModelError` if the model is not in the cache, or with the names of all files that differ.
    """
    entry, cache = registry.resolve(ref), cache_folder(cache_dir)
    folder = cache / "models" / entry.slug
    info = manifest.read(folder)
    if info is None:
        raise ModelError(f"{entry.name} is not in the cache: run `bassline models pull {ref}`.")
    actual = manifest.record_files(info.folder, entry.name, on_progress)
    differing = [
        name for name, record in info.files.items() if name not in actual or actual[name].sha256 != record.sha256
    ]
    # A Python file without a record could run as the model's code (trusted_code.py). Other new files have no effect.
    differing += [name for name in actual if name.endswith(".py") and name not in info.files]
    if differing:
        raise ModelError(
            f"{entry.name}: {', '.join(differing)} in {info.folder} differ from what was recorded:"
            f" delete {folder} and run `bassline models pull {ref}`."
        )
    return info


def remove(slug: str, cache_dir: Path | str | None = None) -> int:
    """Remove all that the cache has of a model but for `incoming/`; return the bytes that it took.

    A user's own folder or GGUF file, and what is in `incoming/`, stay. Raises `ModelError` while another process
    fetches the model, and where it cannot be removed.
    """
    cache = cache_folder(cache_dir)
    folders = [cache / place / slug for place in ("models", "partial", "gguf")]
    n_bytes = sum(map(count_folder_bytes, folders))
    remove_folders(make_lock(cache, slug), *folders)
    return n_bytes


def _find_cached(entry: ModelEntry, cache: Path) -> ModelInfo | None:
    info = manifest.read(cache / "models" / entry.slug)
    # Copying a cache changes modification times; only a user's folder may be edited in place.
    if info is None or not info.is_intact(times=isinstance(entry, LocalFolder)):
        return None
    match entry:
        case KnownModel() if info.sha256 != entry.sha256:
            return None
        case LocalGguf() if info.source != _describe_file_state(entry.path):
            return None
    return replace(info, ref=entry.ref)


def _prepare(entry: ModelEntry, cache: Path, on_progress: OnProgress | None) -> ModelInfo:
    staging = cache / "partial" / entry.slug
    staging.mkdir(parents=True, exist_ok=True)
    ready = staging / "ready"
    shutil.rmtree(ready, ignore_errors=True)  # of an interrupted conversion
    match entry:
        case KnownModel():
            info = _fetch_known(entry, cache, staging, on_progress)
        case HubModel():
            info = _from_hub(entry, staging, on_progress)
        case LocalGguf():
            info = _convert_local_gguf(entry, staging, on_progress)
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


def _fetch_known(model: KnownModel, cache: Path, staging: Path, on_progress: OnProgress | None) -> ModelInfo:
    _require_space(
        cache,
        model.name,
        model.bytes + BYTES_PER_PARAMETER * model.n_parameters + OTHER_BYTES - count_folder_bytes(staging),
    )
    gguf, source = _try_sources(model, cache / "incoming" / model.filename, staging, on_progress)
    ready = staging / "ready"
    versions = conversion.to_safetensors(gguf, ready, model.name, on_progress)
    info = _describe(model, ready, source=source, on_progress=on_progress)
    return replace(info, sha256=model.sha256, licence=model.licence, versions=info.versions | versions)


def _try_sources(model: KnownModel, incoming: Path, staging: Path, on_progress: OnProgress | None) -> tuple[Path, str]:
    """Return (checked file, source in words). Raises `NoSourceError` or `WrongHashError` with the reasons of all."""
    failures: list[tuple[str, ModelError]] = []
    if incoming.is_file():
        actual = sources.hash_file(
            incoming, Meter("check", f"{model.name}: checking {incoming.name}", model.bytes, on_progress)
        )
        if actual == model.sha256:
            return incoming, "local file"
        failures.append((str(incoming), WrongHashError(f"its sha256 is {actual} instead of {model.sha256}")))
    for source in model.sources:
        try:
            return sources.download(source, model, staging, on_progress), sources.describe(source)
        except (SourceError, WrongHashError) as error:
            failures.append((sources.describe(source), error))
            if on_progress:
                on_progress(Progress("probe", f"{model.name}: {sources.describe(source)} failed: {error}"))
    reasons = "; ".join(f"{source}: {error}" for source, error in failures)
    kind = WrongHashError if any(isinstance(error, WrongHashError) for _, error in failures) else NoSourceError
    raise kind(
        f"{model.name} could not be fetched from any source ({reasons}):"
        f" download {model.filename} on another machine and put it at {incoming}."
    )


def _from_hub(entry: HubModel, staging: Path, on_progress: OnProgress | None) -> ModelInfo:
    try:
        offer = sources.list_hub_files(entry.repo, entry.revision, on_progress)
        names = {name for name, _ in offer.files}
        if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
            raise SourceError(
                f"{entry.repo} has no config.json with safetensors weights, the only format that is loaded"
            )
        _require_space(staging, entry.name, offer.bytes - count_folder_bytes(staging))
        sources.download_repository(entry.repo, offer, entry.name, staging / "snapshot", on_progress)
    except SourceError as error:
        raise NoSourceError(
            f"{entry.ref} could not be fetched from the Hugging Face hub ({error}):"
            " download the folder on another machine and give its path."
        ) from error
    ready = (staging / "snapshot").replace(staging / "ready")
    return _describe(entry, ready, source=f"Hugging Face hub, {entry.repo}@{offer.commit}", on_progress=on_progress)


def _convert_local_gguf(entry: LocalGguf, staging: Path, on_progress: OnProgress | None) -> ModelInfo:
    """Convert the user's file into the cache; the file itself is not changed."""
    size = entry.path.stat().st_size
    _require_space(staging, entry.name, GGUF_GROWTH * size + OTHER_BYTES)
    state = _describe_file_state(entry.path)
    meter = Meter("check", f"{entry.name}: hashing", size, on_progress)
    sha256 = sources.hash_file(entry.path, meter)
    versions = conversion.to_safetensors(entry.path, staging / "ready", entry.name, on_progress)
    info = _describe(entry, staging / "ready", source=state, on_progress=on_progress)
    return replace(info, sha256=sha256, versions=info.versions | versions)


def _describe(entry: ModelEntry, folder: Path, *, source: str, on_progress: OnProgress | None) -> ModelInfo:
    n_parameters, dtype = manifest.count_parameters(folder, entry.name)
    files = manifest.record_files(folder, entry.name, on_progress)
    return ModelInfo(
        ref=entry.ref,
        name=entry.name,
        folder=folder,
        sha256=manifest.hash_weights(files),
        source=source,
        licence=None,
        dtype=dtype,
        n_parameters=n_parameters,
        files=files,
        versions=_collect_versions(),
    )


def _collect_versions() -> dict[str, str]:
    """Return the version of Bassline that placed a model; nothing where it runs without being installed."""
    try:
        return {"bassline": metadata.version("bassline")}
    except metadata.PackageNotFoundError:
        return {}


def _describe_file_state(path: Path) -> str:
    """Return a description that changes with the file, without reading its content."""
    stat = path.stat()
    return f"local file of {stat.st_size} bytes, modified at {stat.st_mtime_ns} ns"


def _require_space(folder: Path, name: str, needed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelError(
            f"{name} needs {format_bytes(needed)} free under {folder}, where {format_bytes(free)} are free:"
            " free some space, or set BASSLINE_CACHE_DIR to a folder on a larger disk."
        )


@contextmanager
def _lock(entry: ModelEntry, cache: Path, on_progress: OnProgress | None) -> Iterator[None]:
    lock = make_lock(cache, entry.slug)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if on_progress:
            on_progress(Progress("wait", f"{entry.name}: waiting for another process that is fetching it"))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
