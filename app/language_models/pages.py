"""The pages of models and of trained drafters."""

from __future__ import annotations

from flask import Blueprint, redirect, render_template, url_for
from werkzeug.wrappers import Response

from app.core.errors import ConflictError, NotFoundError
from app.core.states import Scope
from app.language_models import cached, heads
from app.web.http.request_context import get_context, get_session
from app.web.http.security import require_scope
from app.workers import service as workers

bp = Blueprint("models", __name__)


@bp.get("/models")
def index() -> str:
    """The models of the registry and of the cache, with their states, and the trained drafters."""
    return _render_models()


@bp.post("/models/<slug>/delete")
@require_scope(Scope.ADMIN)
def delete_model(slug: str) -> Response | tuple[str, int]:
    """Deletes a model from this machine's cache. Results of runs that name it stay."""
    try:
        cached.delete_model(get_context(), slug)
    except (ConflictError, NotFoundError) as fault:
        return _render_models(f"Nothing was deleted: {fault}"), fault.status
    return redirect(url_for("models.index"), 303)


def _render_models(fault: str = "") -> str:
    alive = workers.find_alive_workers(get_session())
    cache = cached.read_cache(get_context().settings.cache_dir)
    return render_template(
        "language_models/index.html",
        cache=cache,
        loaded={model for worker in alive for model in worker.loaded},
        loading={worker.loading for worker in alive},
        uses={model.ref: cached.count_uses(get_session(), model.ref) for model in cache.models if model.bytes},
        drafters=heads.list_drafters(get_session()),
        fault=fault,
    )


@bp.post("/models/drafters/<slug>/delete")
@require_scope(Scope.ADMIN)
def delete_drafter(slug: str) -> Response:
    """Deletes a trained drafter. Results of runs that drafted with it stay. Raises NotFoundError."""
    heads.delete_drafter(get_context(), slug)
    return redirect(url_for("models.index"), 303)
