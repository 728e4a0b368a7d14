"""REST of models and of trained drafters."""

from __future__ import annotations

from flask import Blueprint
from pydantic import Field

from app.core.states import Scope
from app.language_models import cached, heads, service
from app.language_models.cached import DeletedModel
from app.language_models.heads import DrafterDocument
from app.web.http.operations import declare_operation
from app.web.http.paging import PageQuery, split_list
from app.web.http.request_context import get_context, get_session
from app.web.http.schemas import ResponseModel
from app.web.http.security import require_scope

bp = Blueprint("models_api", __name__, url_prefix="/api/v1")


class ModelDocument(ResponseModel):
    """A model of the registry."""

    ref: str = Field(description="the name of the model in a run")
    title: str
    licence: str
    n_parameters: int
    bytes: int
    sha256: str


class ModelPage(ResponseModel):
    """Known models, smallest first."""

    models: list[ModelDocument]
    next: str | None


class DrafterPage(ResponseModel):
    """Trained drafters by the names of their targets."""

    drafters: list[DrafterDocument]
    next: str | None


@bp.get("/models")
@declare_operation({200: ModelPage})
def index(query: PageQuery) -> ModelPage:
    """The models of the registry. A run may also name hf:owner/name, a folder or a GGUF file."""
    page, following = split_list(service.list_models(), query, lambda model: model.ref)
    return ModelPage(models=[ModelDocument.from_row(model) for model in page], next=following)


@bp.delete("/models/<path:reference>")
@require_scope(Scope.ADMIN)
@declare_operation({200: DeletedModel})
def delete_model(reference: str) -> DeletedModel:
    """Deletes what Bassline placed in this machine's cache for a model. A user's own files and all results stay."""
    return cached.delete_model(get_context(), reference)


@bp.get("/drafters")
@declare_operation({200: DrafterPage})
def drafters_index(query: PageQuery) -> DrafterPage:
    """The trained drafters of this machine, and the published ones. One with a damaged record is left out."""
    page, following = split_list(heads.list_drafters(get_session()), query, lambda drafter: drafter.slug)
    return DrafterPage(drafters=list(page), next=following)


@bp.delete("/drafters/<slug>")
@require_scope(Scope.ADMIN)
@declare_operation({204: None})
def delete(slug: str) -> None:
    """Deletes a trained drafter from the database and from this machine. Results of runs that drafted with it stay."""
    heads.delete_drafter(get_context(), slug)
