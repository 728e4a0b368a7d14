"""One prompt, n samples against the clock. Each completion is a run, so its address keeps it."""

from __future__ import annotations

import uuid

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from app.completions import forms, race_pages, service
from app.completions.race import first_job
from app.completions.repeat import curl
from app.datasets.models import Task
from app.errors import BadInputError
from app.http.web import context, session
from app.runs import presentation as shown
from app.runs import repository
from app.runs.figures import in_budget_s
from app.runs.forms import field_error
from app.runs.models import Run, RunTask
from app.states import OPEN_RUN_STATES, PASSED
from app.ui.display import VERDICTS

bp = Blueprint("complete", __name__)
bp.register_blueprint(race_pages.bp)


@bp.get("/complete")
def index() -> str:
    """The form with an example."""
    return _page(forms.values())


@bp.post("/complete")
def start() -> Response | tuple[str, int]:
    """Starts a completion and shows it; an invalid form is shown again with its values and errors."""
    spec, errors = forms.parse(request.form, lambda spec: service.check(context(), spec))
    if spec is not None:
        try:
            return redirect(url_for("complete.show", run_id=service.submit(context(), spec)), 303)
        except BadInputError as problem:
            errors = field_error(problem, forms.LABELS)
    return _page({**forms.values(), **request.form}, errors), 422


@bp.get("/complete/<uuid:run_id>")
def show(run_id: uuid.UUID) -> str:
    """A completion, running or ended. Raises NotFoundError."""
    run, row = first_job(session(), repository.get_run(session(), run_id))
    return _page(forms.values(run, row), run=run, row=row)


def _curl(run: Run, task: Task) -> str | None:
    """How to repeat it; None for what this API has no fields for."""
    if task.messages or task.prompt_token_ids:
        return None
    return curl(run, task, request.host_url, tokens=context().settings.require_tokens)


def _page(
    values: dict[str, str], errors: dict[str, str] | None = None, run: Run | None = None, row: RunTask | None = None
) -> str:
    signs = shown.in_finish_order(row.samples) if row else []
    signs.sort(key=lambda sign: not sign.chosen)  # the answer a user would see comes first
    first_fields, other_fields = forms.fields()
    return render_template(
        "completions/index.html",
        values=values,
        errors=errors or {},
        first_fields=first_fields,
        other_fields=other_fields,
        run=run,
        row=row,
        run_open=run is not None and run.state in OPEN_RUN_STATES,
        samples=signs,
        ranks=shown.ranks(signs),
        finished=sum(in_budget_s(s.row) is not None for s in signs),
        passed=sum(in_budget_s(s.row) is not None and s.row.verdict == PASSED for s in signs),
        labels=forms.LABELS,
        curl=_curl(run, row.task) if run and row else None,
        verdicts={key: (v.letter, v.family, v.name) for key, v in VERDICTS.items()},
    )
