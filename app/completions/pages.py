"""One prompt, n samples against the clock. Each completion is a run, so its address keeps it."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from app.completions import answers, forms, lanes, race, race_pages, service
from app.completions.lanes import Side
from app.completions.repeat import curl
from app.completions.schemas import CompletionSpec
from app.datasets.models import Task
from app.errors import BadInputError, NotFoundError
from app.events import event_types
from app.events.bus import FIRST
from app.events.texts import TextAssembler
from app.http.security import needs
from app.http.web import context, session
from app.runs.forms import field_error
from app.runs.models import Run
from app.samples.models import FINISHED_REASONS
from app.states import Scope

bp = Blueprint("complete", __name__)
bp.register_blueprint(race_pages.bp)
Answered = Response | tuple[str, int]


@bp.get("/complete")
def index() -> str:
    """The form with an example."""
    return _page(forms.values())


@bp.post("/complete")
@needs(Scope.SUBMIT)
def start() -> Answered:
    """Starts a completion and shows it; an invalid form is shown again with its values and errors."""
    return _started(lambda spec: url_for("complete.show", run_id=service.submit(context(), spec)))


@bp.post("/complete/race")
@needs(Scope.SUBMIT)
def start_race() -> Answered:
    """Starts the same completion with and without speculation, and shows both."""

    def address(spec: CompletionSpec) -> str:
        speculative, plain = race.submit(context(), spec)
        return url_for("complete.race.show", speculative=speculative, plain=plain)

    return _started(address)


@bp.get("/complete/<uuid:run_id>")
def show(run_id: uuid.UUID) -> str:
    """A completion, running or ended. Raises NotFoundError."""
    side = lanes.load(session(), run_id)
    return _page(forms.values(side.run, side.row), side=side)


@bp.get("/complete/<uuid:run_id>/answers/<int:index>")
def answer(run_id: uuid.UUID, index: int) -> str:
    """The answer of a sample that has finished while others are still decoded. Raises NotFoundError."""
    side = lanes.load(session(), run_id)
    texts = TextAssembler()
    events = [texts.expand(event) for event in context().bus.read(run_id, FIRST, 0)]
    for event in reversed([event for event in events if event is not None]):
        for sample in event.data["samples"] if event.type == event_types.TEXT else ():
            if sample["index"] == index and sample["finish_reason"] in FINISHED_REASONS:
                found = answers.of_text(side.run, side.row.task, sample["pieces"])
                return render_template("completions/answer.html", answer=found, index=index)
    raise NotFoundError(f"sample {index} has not finished: look again when it has")


def _started(address: Callable[[CompletionSpec], str]) -> Answered:
    spec, errors = forms.parse(request.form, lambda spec: service.check(context(), spec))
    if spec is not None:
        try:
            return redirect(address(spec), 303)
        except BadInputError as problem:
            errors = field_error(problem, forms.LABELS)
    return _page({**forms.values(), **request.form}, errors), 422


def _curl(run: Run, task: Task) -> str | None:
    """How to repeat it; None for what this API has no fields for."""
    if task.messages or task.prompt_token_ids:
        return None
    return curl(run, task, request.host_url, tokens=context().settings.require_tokens)


def _page(values: dict[str, str], errors: dict[str, str] | None = None, side: Side | None = None) -> str:
    first_fields, other_fields = forms.fields()
    return render_template(
        "completions/index.html",
        values=values,
        errors=errors or {},
        first_fields=first_fields,
        other_fields=other_fields,
        side=side,
        labels=forms.LABELS,
        languages=forms.LANGUAGES,
        curl=_curl(side.run, side.row.task) if side else None,
    )
