"""The models in this machine's cache: their state and size, the results that name them, and their deletion."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field
from sqlalchemy import ColumnElement, distinct, func, or_, select
from sqlalchemy.orm import Session

from app.core.context import Context
from app.core.db.types import Base
from app.core.errors import ConflictError, NotFoundError
from app.core.states import OPEN_RUN_STATES
from app.language_models.service import list_models
from app.web.http.schemas import ResponseModel
from app.web.ui.units import format_count
from app.workers.service import find_alive_workers
from decoding.drafters.registry import DRAFTERS
from decoding.models.errors import ModelError
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


class ModelUse(ResponseModel):
    """The results that name a model. They keep their figures without it."""

    runs: int = Field(description="that name it as target or draft model")
    studies: int = Field(description="of which such runs are arms")

    def describe(self) -> str:
        """As a sentence."""
        named = (
            f"{format_count(self.runs, 'run')} and {format_count(self.studies, 'study')} name it and keep their figures"
        )
        return named if self.runs else "no run names it"


class DeletedModel(ModelUse):
    """A model that was deleted from this machine's cache."""

    ref: str
    bytes: int = Field(description="that it took there")


def count_uses(session: Session, reference: str) -> ModelUse:
    """The stored runs and studies that name a model."""
    runs, arms = Base.metadata.tables["runs"], Base.metadata.tables["study_arms"]  # of layers above this one
    counts = select(func.count(distinct(runs.c.id)), func.count(distinct(arms.c.study_id)))
    row = session.execute(counts.select_from(runs.outerjoin(arms)).where(_is_naming_model(reference))).one()
    return ModelUse(runs=row[0], studies=row[1])


def delete_model(ctx: Context, reference: str) -> DeletedModel:
    """Removes the files that Bassline placed in this machine's cache for a model, given by its reference or the name of
    its folder. A user's own files stay, and a run that names the model fetches it again.

    Raises NotFoundError, and ConflictError for a model that is loaded, needed by an open run, or
    being fetched.
    """
    from decoding.models import fetch  # noqa: PLC0415 (slow to import)

    models = (model for model in read_cache(ctx.settings.cache_dir).models if reference in (model.ref, model.slug))
    model = next(models, None)
    if model is None or not model.bytes:
        raise NotFoundError(
            f"{reference[:200]!r} takes no space in the cache here: `bassline models list` shows the models that do"
        )
    with ctx.database.read() as session:
        if obstacle := _find_obstacle(session, model.ref):
            raise ConflictError(f"{model.ref} {obstacle}")
        uses = count_uses(session, model.ref)
    try:
        n_bytes = fetch.remove(model.slug, ctx.settings.cache_dir)
    except ModelError as error:
        raise ConflictError(str(error)) from None
    return DeletedModel(**uses.model_dump(), ref=model.ref, bytes=n_bytes)


def _find_obstacle(session: Session, reference: str) -> str | None:
    """What needs the model now, and the remedy; None if nothing does."""
    for worker in find_alive_workers(session):
        if reference in (*worker.loaded, worker.loading):
            return f"is in the memory of {worker.name}: end this worker first"
    runs = Base.metadata.tables["runs"]
    is_open = (_is_naming_model(reference), runs.c.state.in_(OPEN_RUN_STATES))
    n_open = session.scalar(select(func.count()).select_from(runs).where(*is_open))
    return f"is needed by {format_count(n_open, 'open run')}: cancel, or wait until none is left" if n_open else None


def _is_naming_model(reference: str) -> ColumnElement[bool]:
    runs = Base.metadata.tables["runs"]
    lookups = [name for name, entry in DRAFTERS.items() if entry.goes_first]
    return or_(
        runs.c.target == reference, runs.c.drafter.in_([reference, *(f"{name}+{reference}" for name in lookups)])
    )
