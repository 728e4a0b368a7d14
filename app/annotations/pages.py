"""Annotations on the page of a run or a study: the address of their forms, and what the page shows of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from flask import Blueprint, redirect, request, url_for
from werkzeug.wrappers import Response

from app.annotations.forms import Refused, changes_of
from app.annotations.models import TagRow
from app.annotations.schemas import Changes
from app.annotations.selection import known_tags
from app.core.context import Context
from app.core.errors import BadInputError
from app.core.states import Scope
from app.web.http.security import may_use, needs
from app.web.http.web import context, session


class AnnotationPages:
    """Adds `/annotations` to the address of a page, which the blueprint's endpoint `show` answers.

    `place` are the parameters of the page's address that say which part of the row it shows, and `row` is the name of
    the row's id in it. `show` renders the page of a row again after a form was refused.
    """

    def __init__(
        self,
        bp: Blueprint,
        row: str,
        place: tuple[str, ...],
        tags: type[TagRow],
        annotate: Callable[[Context, uuid.UUID, Changes], None],
        show: Callable[[uuid.UUID, Refused], str],
    ) -> None:
        self._name, self._row, self._place, self._tags = bp.name, row, place, tags
        self._change, self._show = annotate, show
        address = f"/{bp.name}/<uuid:row_id>/annotations"
        bp.add_url_rule(address, "annotated", self._back)
        bp.add_url_rule(address, "annotate", self._annotate, methods=["POST"])

    def values(self, row_id: uuid.UUID, refused: Refused | None) -> dict[str, Any]:
        """What the template's panel of annotations needs."""
        return {
            "annotate": url_for(f"{self._name}.annotate", row_id=row_id, **self._part()),
            "known_tags": known_tags(session(), self._tags),
            "may_edit": may_use(f"{self._name}.annotate"),
            "refused": refused,
        }

    def _back(self, row_id: uuid.UUID) -> Response:
        """The page of the row: a browser also comes here when it reloads a page whose form was refused."""
        return redirect(url_for(f"{self._name}.show", **self._part() | {self._row: row_id}), 303)

    @needs(Scope.SUBMIT)
    def _annotate(self, row_id: uuid.UUID) -> Response | tuple[str, int]:
        """Changes tags, note, star or archive; a refused form is shown again with what was typed."""
        try:
            self._change(context(), row_id, changes_of(request.form))
        except BadInputError as problem:
            return self._show(row_id, Refused(problem, request.form.to_dict())), problem.status
        return self._back(row_id)

    def _part(self) -> dict[str, Any]:
        return {name: request.args.get(name) for name in self._place}
