"""One prompt, n samples against the clock. Each completion is a run, so its address keeps it."""

from __future__ import annotations

import uuid

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from app.completions import against_plain, forms, lanes, service
from app.completions.lanes import CompletionView
from app.completions.schemas import CompletionSpec
from app.core.errors import BadInputError
from app.core.states import Scope
from app.runs.forms import map_field_error, parse_form
from app.web.http.request_context import get_context, get_session
from app.web.http.security import require_scope

bp = Blueprint("complete", __name__)
PageResponse = Response | tuple[str, int]


@bp.get("/complete")
def index() -> str:
    """The form with an example."""
    return _render_page(forms.get_initial_values())


@bp.post("/complete")
@require_scope(Scope.SUBMIT)
def start() -> PageResponse:
    """Starts a completion and shows it; an invalid form is shown again with its values and errors."""
    spec, errors = parse_form(CompletionSpec, request.form, forms.LABELS)
    if spec is not None:
        submit = against_plain.submit if forms.AGAINST_PLAIN in request.form else service.submit
        try:
            return redirect(url_for("complete.show", run_id=submit(get_context(), spec)), 303)
        except BadInputError as problem:
            errors = map_field_error(problem, forms.LABELS)
    return _render_page({**forms.get_initial_values(), **request.form}, errors), 422


@bp.get("/complete/<uuid:run_id>")
def show(run_id: uuid.UUID) -> str:
    """A completion, running or ended, beside plain decoding where that was asked for. Raises NotFoundError."""
    side, plain = against_plain.load_both_sides(get_session(), run_id)
    values = forms.get_initial_values(side.run, side.row) | ({forms.AGAINST_PLAIN: "true"} if plain else {})
    return _render_page(values, side=side, plain=plain)


@bp.post("/complete/<uuid:run_id>/cancel")
@require_scope(Scope.SUBMIT)
def cancel(run_id: uuid.UUID) -> Response:
    """Ends what is left of a completion."""
    lanes.require_completion(get_session(), run_id)
    against_plain.cancel(get_context(), run_id)
    return redirect(url_for("complete.show", run_id=run_id), 303)


def _render_page(
    values: dict[str, str],
    errors: dict[str, str] | None = None,
    side: CompletionView | None = None,
    plain: CompletionView | None = None,
) -> str:
    first_fields, other_fields = forms.build_fields()
    return render_template(
        "completions/index.html",
        values=values,
        errors=errors or {},
        first_fields=first_fields,
        other_fields=other_fields,
        side=side,
        sides={"Speculative": side, "Plain": plain} if plain else {},
        conclusion=against_plain.conclude(side, plain) if side and plain else "",
        open=any(one is not None and one.open for one in (side, plain)),
        labels=forms.LABELS,
        languages=forms.LANGUAGES,
    )
