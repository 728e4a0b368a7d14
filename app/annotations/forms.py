"""Annotations as forms of a page: the change that a form asks for, and the form as the page shows it again after an
error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.annotations.schemas import Changes
from app.annotations.tags import parse_tag, parse_tags
from app.core.errors import BadInputError
from app.web.http.schemas import parse_spec


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused form: the error and the typed values. Only the field at fault has an error."""

    error: BadInputError
    typed: Mapping[str, str]

    @property
    def errors(self) -> dict[str, str]:
        """The sentence under the name of its field, `note` or `add`."""
        return {"note" if self.error.field == "note" else "add": str(self.error)}


def changes_of(form: Mapping[str, str]) -> Changes:
    """What a form changes: tags in `add`, one tag in `remove`, `note`, and `starred` and `archived` as 1 or 0.

    Raises BadInputError that names the field.
    """
    given: dict[str, Any] = {}
    if "add" in form:
        given["add_tags"] = parse_tags(form["add"])
    if "remove" in form:
        given["remove_tags"] = (parse_tag(form["remove"]),)
    if "note" in form:
        given["note"] = form["note"].replace("\r\n", "\n")
    given |= {name: form[name] == "1" for name in ("starred", "archived") if name in form}
    return parse_spec(Changes, given)
