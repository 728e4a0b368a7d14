"""Two configurations on one prompt: decoded one after the other, then replayed side by side on one clock."""

from __future__ import annotations

import uuid

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from app.completions import forms, race, replay, service
from app.completions.race import Side
from app.errors import BadInputError
from app.http.web import context, session
from app.runs import configuration
from app.runs import presentation as shown
from app.runs.forms import field_error
from app.runs.models import Run
from app.ui.display import VERDICTS

bp = Blueprint("race", __name__, url_prefix="/complete/race")


@bp.get("")
def index() -> str:
    """The form: with an example, or with the race of `?a=` and `?b=` (without b, one change to a) to start again."""
    of_a, of_b = _asked("a"), _asked("b")
    return _form({**of_a, **forms.second_values(of_a, of_b if request.args.get("b") else None)})


@bp.post("")
def start() -> Response | tuple[str, int]:
    """Starts a race and shows it; an invalid form is shown again with its values and errors."""
    specs, errors = forms.parse_race(request.form, lambda spec: service.check(context(), spec))
    if specs is not None:
        try:
            a, b = race.submit(context(), *specs)
            return redirect(url_for("complete.race.show", a=a, b=b), 303)
        except BadInputError as problem:
            errors = field_error(problem, forms.LABELS)
    values = forms.values()
    return _form({**values, **dict.fromkeys(forms.second_values(values), ""), **request.form}, errors), 422


@bp.get("/<uuid:a>/<uuid:b>")
def show(a: uuid.UUID, b: uuid.UUID) -> str:
    """A race, running or ended. Raises NotFoundError, or BadInputError for two prompts."""
    sides = race.load(session(), a, b)
    runs = [side.run for side in sides if side.run is not None]
    both = runs if len(runs) == len(sides) else None
    return render_template(
        "completions/race.html",
        ids={"a": a, "b": b},
        sides=[_panel(side) for side in sides],
        task=next(side.row.task for side in sides if side.row),
        any_open=any(side.open for side in sides),
        answer=replay.answer(*sides),
        table=replay.table(*sides),
        chart=replay.chart(*sides),
        length_s=replay.length_s(*sides),
        moments=replay.moments(*sides),
        changed=_changed(*both) if both else [],
        devices={run.device_label for run in runs if run.provenance},
    )


@bp.post("/<uuid:a>/<uuid:b>/cancel")
def cancel(a: uuid.UUID, b: uuid.UUID) -> Response:
    """Ends what is left of the race."""
    race.load(session(), a, b)
    race.cancel(context(), a, b)
    return redirect(url_for("complete.race.show", a=a, b=b), 303)


def _panel(side: Side) -> dict[str, object]:
    signs = shown.in_finish_order(side.samples)
    return {
        "side": side,
        "samples": signs,
        "ranks": shown.ranks(signs),
        "replays": {s.row.index: replay.sample_replay(side, s.row) for s in signs},
        "verdicts": {key: (v.letter, v.family, v.name) for key, v in VERDICTS.items()},
    }


def _changed(a: Run, b: Run) -> list[tuple[str, str, str]]:
    pairs = zip(configuration.table(a), configuration.table(b), strict=True)
    return [(label, of_a, of_b) for (label, of_a), (_, of_b) in pairs if of_a != of_b]


def _asked(name: str) -> dict[str, str]:
    """The form's values for the completion that the address names; an example if it names none. Raises
    NotFoundError."""
    text = request.args.get(name)
    if not text:
        return forms.values()
    try:
        run_id = uuid.UUID(text)
    except ValueError:
        raise BadInputError(
            f"{text[:60]!r} is not a completion's id: open a completion and race it from there"
        ) from None
    found = race.side(session(), name, run_id)
    return forms.values(found.run, found.row)


def _form(values: dict[str, str], errors: forms.Errors | None = None) -> str:
    first, other = forms.fields(forms.FIRST_OF_RACE)
    return render_template(
        "completions/race_form.html",
        values=values,
        errors=errors or {},
        labels=forms.RACE_LABELS,
        shared=[field for field in first if field.name in forms.SHARED],
        sides=[
            (
                "A",
                [field for field in first if field.name not in forms.SHARED],
                [field for field in other if field.name not in forms.SHARED],
            ),
            ("B", forms.second_fields(first), forms.second_fields(other)),
        ],
    )
