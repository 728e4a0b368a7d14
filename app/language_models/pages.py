"""The pages of models and of trained drafters."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from flask import Blueprint, redirect, render_template, url_for
from werkzeug.wrappers import Response

from app.core.errors import ConflictError, NotFoundError
from app.core.states import Scope
from app.language_models import cached, deletion, drafters, heads
from app.language_models.drafters import DrafterSpeed
from app.web.http.request_context import get_context, get_session
from app.web.http.security import require_scope
from app.workers import service as workers

PLAIN = "none"
_ORDER = (PLAIN, "sibling", "trained", "sibling+trained")


@dataclass(frozen=True)
class SpeedCell:
    """Tokens per second, and the ratio to plain decoding; None where either was not measured."""

    tokens_per_s: float | None
    ratio: float | None


@dataclass(frozen=True)
class SpeedTable:
    """`columns` are (temperature, its batch sizes); each row is a drafter and one cell for every batch of them."""

    columns: list[tuple[float, list[int]]]
    rows: list[tuple[str, list[SpeedCell]]]


def build_speed_table(speeds: Sequence[DrafterSpeed]) -> SpeedTable | None:
    """The table of the measured speeds; None if there are none."""
    known = {
        (s.drafter, s.temperature, s.batch): s.tokens_per_s
        for s in speeds
        if s.temperature is not None and s.tokens_per_s is not None
    }
    if not known:
        return None
    places = sorted({(temperature, batch) for _, temperature, batch in known})
    drafters = sorted({drafter for drafter, _, _ in known}, key=_get_drafter_order)
    return SpeedTable(
        [(t, [b for _, b in group]) for t, group in groupby(places, key=lambda place: place[0])],
        [(d, [_build_cell(known.get((d, *at)), known.get((PLAIN, *at))) for at in places]) for d in drafters],
    )


def _build_cell(value: float | None, plain: float | None) -> SpeedCell:
    return SpeedCell(value, value / plain if value is not None and plain else None)


def _get_drafter_order(drafter: str) -> tuple[int, str]:
    return (_ORDER.index(drafter) if drafter in _ORDER else len(_ORDER), drafter)


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
        deletion.delete_model(get_context(), slug)
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
        uses={model.ref: deletion.count_uses(get_session(), model.ref) for model in cache.models if model.bytes},
        drafters=drafters.list_drafters(get_session()),
        fault=fault,
    )


@bp.get("/models/drafters/<slug>")
def drafter(slug: str) -> str:
    """A trained drafter: its target, its training, and its speeds. Raises NotFoundError."""
    found = drafters.get_drafter(get_session(), slug)
    target = shlex.quote(found.target)
    return render_template(
        "language_models/drafter.html",
        drafter=found,
        speeds=build_speed_table(found.speeds),
        commands=[
            f"bassline eval --target {target} --drafter trained",
            f"bassline eval --target {target} --drafter sibling+trained",
            f"bassline drafter check --target {target}",
        ],
    )


@bp.post("/models/drafters/<slug>/delete")
@require_scope(Scope.ADMIN)
def delete_drafter(slug: str) -> Response:
    """Deletes a trained drafter. Results of runs that drafted with it stay. Raises NotFoundError."""
    heads.delete_head(get_context(), drafters.get_drafter(get_session(), slug).target)
    return redirect(url_for("models.index"), 303)
