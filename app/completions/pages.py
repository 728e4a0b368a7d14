"""The race: one prompt, n samples against the clock. Each race is a run of its own, so its address keeps it."""

from __future__ import annotations

import uuid

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from app.completions import service
from app.completions.repeat import curl
from app.completions.schemas import CompletionSpec
from app.errors import BadInput, NotFound
from app.http.web import context, session
from app.runs import presentation as shown
from app.runs import repository
from app.runs.figures import in_budget_s
from app.runs.forms import as_form, field_error, form_fields, labels_of, parse_form
from app.runs.models import Run, RunTask
from app.states import OPEN_RUN_STATES, PASSED, RunKind
from app.ui.display import VERDICTS

bp = Blueprint("complete", __name__)

EXAMPLE = {
    "target": "qwen2.5-coder-0.5b",
    "prompt": 'def is_palindrome(text: str) -> bool:\n    """Whether text reads the same backwards."""\n',
    "temperature": "0.6",
    "max_tokens": "256",
}
LABELS = {
    "prompt": "Prompt",
    "test": "Test",
    "entry_point": "Function under test",
    **labels_of(CompletionSpec),
}
FIRST = ("target", "drafter", "n", "budget_s", "temperature", "max_tokens", "prompt_mode")  # the others are folded
MODES = (
    ("completion", "completion: continue the text"),
    ("chat", "chat: ask for the code"),
    ("auto", "auto: chat if the model has a template"),
)


@bp.get("/complete")
def index() -> str:
    """The form with an example."""
    return _page({**as_form(CompletionSpec), **EXAMPLE})


@bp.post("/complete")
def start() -> Response | tuple[str, int]:
    """Starts a race and shows it; a form at fault comes back with what was typed and what is wrong."""
    valid = {name: EXAMPLE[name] for name in ("target", "prompt")}
    spec, errors = parse_form(CompletionSpec, request.form, LABELS, valid, lambda spec: service.check(context(), spec))
    if spec is not None:
        try:
            return redirect(url_for("complete.show", run_id=service.submit(context(), spec)), 303)
        except BadInput as problem:
            errors = field_error(problem, LABELS)
    return _page({**as_form(CompletionSpec), **request.form}, errors), 422


@bp.get("/complete/<uuid:run_id>")
def show(run_id: uuid.UUID) -> str:
    """A race, running or over. Raises NotFound."""
    run = repository.get_run(session(), run_id)
    rows = repository.tasks_with_samples(session(), run_id, origins=True)
    if run.kind is not RunKind.COMPLETION or not rows:
        raise NotFound(f"run {run_id} is no completion: open it under Runs")
    return _page(_values(run, rows[0]), run=run, row=rows[0])


def _page(
    values: dict[str, str], errors: dict[str, str] | None = None, run: Run | None = None, row: RunTask | None = None
) -> str:
    signs = shown.in_finish_order(row.samples) if row else []
    fields = {field.name: field for field in form_fields(CompletionSpec, {"prompt_mode": MODES})}
    return render_template(
        "completions/index.html",
        values=values,
        errors=errors or {},
        first_fields=[fields.pop(name) for name in FIRST],
        other_fields=list(fields.values()),
        run=run,
        row=row,
        run_open=run is not None and run.state in OPEN_RUN_STATES,
        samples=signs,
        ranks=shown.ranks(signs),
        finished=sum(in_budget_s(s.row) is not None for s in signs),
        passed=sum(in_budget_s(s.row) is not None and s.row.verdict == PASSED for s in signs),
        labels=LABELS,
        curl=curl(run, row.task, request.host_url, tokens=context().settings.require_tokens) if run and row else None,
        verdicts={key: (v.letter, v.family, v.name) for key, v in VERDICTS.items()},
    )


def _values(run: Run, row: RunTask) -> dict[str, str]:
    return {
        **as_form(CompletionSpec, run),
        "prompt": row.task.prompt,
        "test": service.typed_test(row.task),
        "entry_point": row.task.entry_point,
    }
