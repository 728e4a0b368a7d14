"""The pages of models and of trained drafters."""

from __future__ import annotations

import shlex

from flask import Blueprint, redirect, render_template, url_for
from werkzeug.wrappers import Response

from app.core.db.types import utcnow
from app.core.errors import ConflictError, NotFoundError
from app.core.states import Scope
from app.language_models import cached, deletion, drafters, heads
from app.language_models.presentation import speed_table
from app.web.http.security import needs
from app.web.http.web import context, session
from app.workers import service as workers
from app.workers.service import is_alive

bp = Blueprint("models", __name__)


@bp.get("/models")
def index() -> str:
    """The models of the registry and of the cache, with their states, and the trained drafters."""
    return _page()


@bp.post("/models/<slug>/delete")
@needs(Scope.ADMIN)
def delete_model(slug: str) -> Response | tuple[str, int]:
    """Deletes a model from this machine's cache. Results of runs that name it stay."""
    try:
        deletion.delete_model(context(), slug)
    except (ConflictError, NotFoundError) as fault:
        return _page(f"Nothing was deleted: {fault}"), fault.status
    return redirect(url_for("models.index"), 303)


def _page(fault: str = "") -> str:
    alive = [worker for worker in workers.list_workers(session()) if is_alive(worker, utcnow())]
    cache = cached.read(context().settings.cache_dir)
    return render_template(
        "language_models/index.html",
        cache=cache,
        loaded={model for worker in alive for model in worker.loaded},
        loading={worker.loading for worker in alive},
        uses={model.ref: deletion.count_uses(session(), model.ref) for model in cache.models if model.bytes},
        drafters=drafters.every(session()),
        fault=fault,
    )


@bp.get("/models/drafters/<slug>")
def drafter(slug: str) -> str:
    """A trained drafter: its target, its training, and its speeds. Raises NotFoundError."""
    found = drafters.get(session(), slug)
    target = shlex.quote(found.target)
    return render_template(
        "language_models/drafter.html",
        drafter=found,
        speeds=speed_table(found.speeds),
        commands=[
            f"bassline eval --target {target} --drafter trained",
            f"bassline eval --target {target} --drafter sibling+trained",
            f"bassline drafter check --target {target}",
        ],
    )


@bp.post("/models/drafters/<slug>/delete")
@needs(Scope.ADMIN)
def delete(slug: str) -> Response:
    """Deletes a trained drafter. Results of runs that drafted with it stay. Raises NotFoundError."""
    heads.delete(context(), drafters.get(session(), slug).target)
    return redirect(url_for("models.index"), 303)
