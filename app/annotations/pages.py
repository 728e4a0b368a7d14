"""Annotations on the page of a run or a study: the address of their forms, and what the page shows of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from flask import Blueprint, redirect, request, url_for
from werkzeug.wrappers import Response

from app.annotations.schemas import AnnotationChanges
from app.core.context import Context
from app.core.states import Scope
from app.web.http.request_context import get_context
from app.web.http.schemas import parse_spec
from app.web.http.security import may_use, require_scope


class AnnotationPages:
    """Adds `/annotations` to the address of a page, which the blueprint's endpoint `show` answers.

    `place` names the query parameters to keep (such as tab), and `row` the name of
    the row's id in that address.
    """

    def __init__(
        self,
        bp: Blueprint,
        row: str,
        place: tuple[str, ...],
        annotate: Callable[[Context, uuid.UUID, AnnotationChanges], None],
    ) -> None:
        self._name, self._row, self._place, self._change = bp.name, row, place, annotate
        address = f"/{bp.name}/<uuid:row_id>/annotations"
        bp.add_url_rule(address, "annotated", self._redirect_back)
        bp.add_url_rule(address, "annotate", self._annotate, methods=["POST"])

    def build_template_values(self, row_id: uuid.UUID) -> dict[str, Any]:
        """What the template's panel of annotations needs."""
        return {
            "annotate": url_for(f"{self._name}.annotate", row_id=row_id, **self._get_kept_query()),
            "may_edit": may_use(f"{self._name}.annotate"),
        }

    def _redirect_back(self, row_id: uuid.UUID) -> Response:
        """The page of the row: a browser also comes here when it reloads the page of an error."""
        return redirect(url_for(f"{self._name}.show", **self._get_kept_query() | {self._row: row_id}), 303)

    @require_scope(Scope.SUBMIT)
    def _annotate(self, row_id: uuid.UUID) -> Response:
        """Changes the note, or archives."""
        self._change(get_context(), row_id, _parse_changes(request.form))
        return self._redirect_back(row_id)

    def _get_kept_query(self) -> dict[str, Any]:
        return {name: request.args.get(name) for name in self._place}


def is_asking_for_archived() -> bool:
    """Whether the address of a list asks for archived rows, too."""
    return request.args.get("archived") in ("1", "true")


def _parse_changes(form: Mapping[str, str]) -> AnnotationChanges:
    """What a form changes: `note`, and `archived` as 1 or 0. Raises BadInputError."""
    given: dict[str, Any] = {"note": form["note"]} if "note" in form else {}
    return parse_spec(AnnotationChanges, given | ({"archived": form["archived"] == "1"} if "archived" in form else {}))
