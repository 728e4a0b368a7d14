"""The pages of a race: two completions of one prompt, each shown as Completion shows it, side by side on one clock."""

from __future__ import annotations

import uuid

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from app.completions import race
from app.http.security import needs
from app.http.web import context, session
from app.states import Scope

bp = Blueprint("race", __name__, url_prefix="/complete/race")


@bp.get("/<uuid:speculative>/<uuid:plain>")
def show(speculative: uuid.UUID, plain: uuid.UUID) -> str:
    """A race, running or ended. Raises NotFoundError, or BadInputError for two that do not make a race."""
    sides = race.load(session(), speculative, plain)
    return render_template(
        "completions/race.html",
        sides=dict(zip(("Speculative", "Plain"), sides, strict=True)),
        conclusion=race.conclusion(*sides),
        any_open=any(side.open for side in sides),
        length_s=max(side.length_s for side in sides),
        ids=request.view_args,
    )


@bp.post("/<uuid:speculative>/<uuid:plain>/cancel")
@needs(Scope.SUBMIT)
def cancel(speculative: uuid.UUID, plain: uuid.UUID) -> Response:
    """Ends what is left of the race."""
    race.load(session(), speculative, plain)
    race.cancel(context(), speculative, plain)
    return redirect(url_for("complete.race.show", speculative=speculative, plain=plain), 303)
