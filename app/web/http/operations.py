"""Declares an endpoint of the API once: the declaration checks requests and documents the endpoint.

A view takes `query` and `body` (JSON) or `form` (multipart) as parameters, each annotated with a subclass of
`app.web.http.schemas.RequestModel`. It returns a model, a model with headers, or a finished response. openapi.py
reads the declarations.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from flask import Response, request
from pydantic import BaseModel, ValidationError
from werkzeug.exceptions import UnsupportedMediaType

from app.core.errors import BadInputError
from app.web.http.schemas import parse_spec, to_bad_input

JSON = "application/json"
MULTIPART = "multipart/form-data"
EVENTS = "text/event-stream"
OPERATION = "operation"
Content = type[BaseModel] | str | None  # a schema for JSON, another media type, or nothing
M = TypeVar("M", bound=BaseModel)
View = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """`takes` has the schema of each of `query`, `body` and `form` that the view takes; `answers` maps a status to its
    possible contents."""

    takes: Mapping[str, type[BaseModel]]
    answers: Mapping[int, tuple[Content, ...]]


def declare_operation(answers: Mapping[int, Content | tuple[Content, ...]]) -> Callable[[View], View]:
    """Declares a view as an endpoint of the API: validates its parameters and turns the returned model into JSON.

    A returned model is sent with the first status of `answers`. The endpoint raises BadInputError for an invalid
    request and UnsupportedMediaType for a body of another type.
    """

    def declare(view: View) -> View:
        hints = get_type_hints(view)
        takes = {name: hints[name] for name in _PARSERS if name in inspect.signature(view).parameters}
        contents = {status: c if isinstance(c, tuple) else (c,) for status, c in answers.items()}

        @functools.wraps(view)
        def endpoint(**path: Any) -> Response:
            taken = {name: _PARSERS[name](model) for name, model in takes.items()}
            return _build_response(view(**path, **taken), next(iter(answers)))

        setattr(endpoint, OPERATION, Operation(takes, contents))
        return endpoint

    return declare


def _parse_query(model: type[M]) -> M:
    for name, values in request.args.lists():
        if len(values) > 1:
            raise BadInputError(f"{name[:60]} is given {len(values)} times: give it once", name)
    return parse_spec(model, request.args.to_dict())


def _parse_body(model: type[M]) -> M:
    # Requiring the type keeps out forms of other sites: a browser sends JSON across sites only after a preflight.
    if request.mimetype != JSON:
        raise UnsupportedMediaType(f"send the body with Content-Type: {JSON}")
    try:
        return model.model_validate_json(request.get_data())
    except ValidationError as error:
        raise to_bad_input(error) from None


def _parse_form(model: type[M]) -> M:
    if request.mimetype != MULTIPART:
        raise UnsupportedMediaType(f"send the file with Content-Type: {MULTIPART}")
    return parse_spec(model, {**request.form.to_dict(), **request.files.to_dict()})


_PARSERS: Mapping[str, Callable[[type[BaseModel]], BaseModel]] = {
    "query": _parse_query,
    "body": _parse_body,
    "form": _parse_form,
}


def _build_response(result: Any, status: int) -> Response:
    if isinstance(result, Response):
        return result
    headers: dict[str, str] = {}
    if isinstance(result, tuple):
        result, headers = result
    text = "" if result is None else result.model_dump_json(exclude_unset=True)
    return Response(text, status, headers, content_type=JSON if text else None)
