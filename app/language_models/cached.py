"""The models in this machine's cache, their state and size."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.language_models.service import list_models
from decoding.models.registry import KnownModel
from kernels.cache import cache_folder

State = Literal["ready", "partial", "damaged", "absent"]


@dataclass(frozen=True)
class ModelState:
    """A model by its reference in a run; `bytes` is its size on disk, `download` its size to fetch.

    `partial` is an interrupted or running download; the files of a `damaged` model changed after it was cached.
    """

    ref: str
    title: str
    licence: str | None
    n_parameters: int | None
    download: int | None
    sha256: str | None
    state: State
    bytes: int
    slug: str  # its folder's name


@dataclass(frozen=True)
class ModelCache:
    """The models of the registry, cached models of other sources, and the bytes free on the cache's disk."""

    models: list[ModelState]
    free: int | None

    @property
    def bytes(self) -> int:
        """Bytes that all of them take."""
        return sum(model.bytes for model in self.models)

    @property
    def n_ready(self) -> int:
        """How many can be loaded without a download."""
        return sum(model.state == "ready" for model in self.models)


def read_cache(cache_dir: Path | None) -> ModelCache:
    """The cache as it is now (None: the fetcher's default folder). Sizes are compared, nothing is hashed."""

    folder = cache_folder(cache_dir)
    known = list_models()
    models = [_build_model_state(model, folder) for model in known]
    models += _iterate_other_models(folder, {model.slug for model in known})
    existing = next((place for place in (folder, *folder.parents) if place.exists()), None)
    return ModelCache(models, shutil.disk_usage(existing).free if existing else None)


def _build_model_state(model: KnownModel, folder: Path) -> ModelState:
    from decoding.models import fetch, progress  # noqa: PLC0415

    info = fetch.find_cached(model.ref, folder)
    ready, partial = folder / "models" / model.slug, folder / "partial" / model.slug
    state: State = "ready" if info else "partial" if partial.is_dir() else "damaged" if ready.is_dir() else "absent"
    on_disk = (
        info.bytes if info else sum(progress.count_folder_bytes(place) for place in (ready, partial) if place.is_dir())
    )
    return ModelState(
        model.ref, model.title, model.licence, model.n_parameters, model.bytes, model.sha256, state, on_disk, model.slug
    )


def _iterate_other_models(folder: Path, known: set[str]) -> Iterator[ModelState]:
    from decoding.models import manifest  # noqa: PLC0415

    for record in sorted((folder / "models").glob(f"*/{manifest.FILENAME}")):
        info = manifest.read(record.parent)
        if info is None or record.parent.name in known:
            continue
        state: State = "ready" if info.is_intact(times=False) else "damaged"
        own = info.bytes if info.folder == record.parent else 0  # a user's folder is used in place
        facts = (info.ref, info.name, info.licence, info.n_parameters, None, info.sha256)
        yield ModelState(*facts, state, own, record.parent.name)
