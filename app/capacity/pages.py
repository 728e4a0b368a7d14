"""Pages of load tests: the list, and one load test, alone or overlaid with another."""

from __future__ import annotations

import uuid

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from app.capacity import measuring, presentation, reference, repository, service
from app.capacity.documents import document
from app.errors import BadInputError
from app.http.security import may_use, needs
from app.http.web import context, kept, session
from app.runs.clock import LOST_TO_OTHERS
from app.states import Scope
from evaluation.load_metrics import UNCLOCKED_S

bp = Blueprint("capacity", __name__)

PAGE_SIZE = 20


@bp.get("/capacity")
def index() -> AnyResponse | str | tuple[str, int]:
    """Load tests, newest first; `?before=` an id gives the next page, two times `?test=` compares these two."""
    ticked = request.args.getlist("test")
    error = ""
    if len(ticked) == 2:
        address = url_for("capacity.show", load_test_id=_uuid(ticked[0]))
        return redirect(f"{address}?with={_uuid(ticked[1])}")
    if "compare" in request.args:
        error = f"{len(ticked)} load tests are selected: select two to compare them"
    before = request.args.get("before")
    rows = repository.list_load_tests(session(), limit=PAGE_SIZE + 1, before=_uuid(before) if before else None)
    page = render_template(
        "capacity/index.html",
        tests=[document(row) for row in rows[:PAGE_SIZE]],
        following=rows[PAGE_SIZE - 1].id if len(rows) > PAGE_SIZE else None,
        ticked=set(ticked),
        error=error,
        measuring=kept(measuring.LoadTests).last,
        models=measuring.choices(),
        lengths=measuring.lengths(),
        usual=f"{measuring.WINDOWS_S[1]:g}",
        rates=measuring.RATES,
        n=measuring.N,
        load_budget_s=measuring.BUDGET_S,
        command=" ".join(["bassline", *measuring.command("qwen2.5-coder-0.5b", measuring.WINDOWS_S[-1])]),
        refusal=_refusal(),
        example=reference.reference_to_load(context()),
    )
    return (page, 422) if error else page


@bp.post("/capacity/measure")
@needs(Scope.ADMIN)
def measure() -> AnyResponse:
    """Starts a load test of this machine. Only an admin may: meanwhile nobody else is served."""
    form = request.form
    kept(measuring.LoadTests).start(context(), form.get("target", ""), form.get("duration", ""))
    return redirect(url_for("capacity.index"), 303)


@bp.post("/capacity/cancel")
@needs(Scope.ADMIN)
def cancel() -> AnyResponse:
    """Ends the load test; the rates that are done are stored."""
    kept(measuring.LoadTests).cancel(context())
    return redirect(url_for("capacity.index"), 303)


@bp.post("/capacity/reference")
@needs(Scope.SUBMIT)
def load() -> AnyResponse:
    """Loads the example of this installation, and shows it: one service overlaid with the other."""
    first, *others = reference.load_reference(context())
    address = url_for("capacity.show", load_test_id=first)
    return redirect(f"{address}?with={others[0]}" if others else address, 303)


@bp.get("/capacity/<uuid:load_test_id>")
def show(load_test_id: uuid.UUID) -> str:
    """A load test; `?with=` the id of another overlays that one."""
    other = request.args.get("with")
    ids = [load_test_id, *([_uuid(other)] if other else [])]
    tests = [document(repository.get_load_test(session(), one)) for one in dict.fromkeys(ids)]
    others = [row for row in repository.list_load_tests(session(), limit=PAGE_SIZE) if row.id not in ids]
    return render_template(
        "capacity/show.html",
        tests=tests,
        names=presentation.short_names(tests),
        charts=presentation.charts(tests),
        settings=presentation.settings(tests),
        caution=presentation.caution(tests),
        comparison=presentation.comparison(tests),
        others=others,
        unclocked_s=UNCLOCKED_S,
        LOST_TO_OTHERS=LOST_TO_OTHERS,
        may_delete=len(tests) == 1 and may_use("capacity.delete"),
    )


@bp.post("/capacity/<uuid:load_test_id>/delete")
@needs(Scope.ADMIN)
def delete(load_test_id: uuid.UUID) -> AnyResponse:
    """Removes a load test."""
    service.delete_load_test(context(), load_test_id)
    return redirect(url_for("capacity.index"), 303)


def _refusal() -> str | None:
    """Why the sender cannot start a load test here; None where it can."""
    if not may_use("capacity.measure"):
        return "it takes the whole machine for minutes, so only an administrator may start one"
    return measuring.refusal(context())


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise BadInputError(f"{text[:60]!r} is not a load test's id: choose one on the page Capacity") from None
