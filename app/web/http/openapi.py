"""GET /api/v1/openapi.json: the API as OpenAPI 3.1, made from the routes and the declarations of their views.

pydantic writes the schemas, in the JSON Schema dialect of OpenAPI 3.1; this module adds the routes.
"""

from __future__ import annotations

import http
import inspect
import re
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from flask import Blueprint, Flask, current_app
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from werkzeug.routing import Rule, UUIDConverter

from app.web.http import problems
from app.web.http.operations import JSON, MULTIPART, OPERATION, Content, Operation, declare_operation
from app.web.http.security import PUBLIC, get_scope

PREFIX = "/api/v1"
SCHEMAS = "#/components/schemas/"
METHODS = ("GET", "POST", "PATCH", "DELETE")
bp = Blueprint("openapi", __name__, url_prefix=PREFIX)


@bp.get("/openapi.json")
@declare_operation({200: JSON})
def document() -> Any:
    """This document."""
    return current_app.json.response(build_openapi_document(current_app))


def build_openapi_document(app: Flask) -> dict[str, Any]:
    """The OpenAPI document of the application."""
    found = list(_iterate_operations(app))
    used = {problems.Problem: "serialization"} | {
        model: mode for _, _, o in found for model, mode in _iterate_models(o)
    }
    refs, written = models_json_schema(list(used.items()), ref_template=SCHEMAS + "{model}")  # type: ignore[arg-type]
    paths: dict[str, dict[str, Any]] = {}
    for rule, method, declared in found:
        path = re.sub(r"<(?:[^<:]+:)?(\w+)>", r"{\1}", rule.rule)
        paths.setdefault(path, {})[method.lower()] = _describe_operation(app, rule, method, declared, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Bassline",
            "version": metadata.version("bassline"),
            "description": "Runs, studies, datasets, models and completions of this Bassline.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": written["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "`bassline tokens`"}},
        },
    }


def _iterate_operations(app: Flask) -> Iterator[tuple[Rule, str, Operation]]:
    for rule in app.url_map.iter_rules():
        declared = getattr(app.view_functions[rule.endpoint], OPERATION, None)
        if declared is not None:
            yield from ((rule, method, declared) for method in METHODS if method in (rule.methods or ()))


def _iterate_models(declared: Operation) -> Iterator[tuple[type[BaseModel], JsonSchemaMode]]:
    for given in declared.takes.values():
        yield given, "validation"
    for contents in declared.answers.values():
        yield from ((content, "serialization") for content in contents if inspect.isclass(content))


def _describe_operation(
    app: Flask, rule: Rule, method: str, declared: Operation, refs: dict[Any, Any]
) -> dict[str, Any]:
    view = app.view_functions[rule.endpoint]
    summary, _, rest = (inspect.getdoc(view) or "").partition("\n")
    is_public, takes = rule.endpoint in PUBLIC, declared.takes
    if not is_public:
        rest = f"{rest}\nNeeds the scope `{get_scope(view, method)}`."
    described: dict[str, Any] = {
        "operationId": rule.endpoint.replace(".", "_").replace("_api", "").rstrip("_"),
        "summary": summary.rstrip("."),
        "tags": [rule.rule.removeprefix(PREFIX).split("/")[1]],
        "parameters": [*_describe_path_parameters(rule), *_describe_query_parameters(takes.get("query"))],
        "responses": {
            **{str(status): _describe_response(status, found, refs) for status, found in declared.answers.items()},
            "default": {
                "description": "A problem: its `status` and `code` say which, its `detail` what to do",
                "content": {problems.CONTENT_TYPE: {"schema": refs[problems.Problem, "serialization"]}},
            },
        },
        "security": [] if is_public else [{"token": []}],
    }
    if rest.strip():
        described["description"] = rest.strip()
    for name, content_type in (("body", JSON), ("form", MULTIPART)):
        if name in takes:
            content = {content_type: {"schema": refs[takes[name], "validation"]}}
            described["requestBody"] = {"required": True, "content": content}
    return described


def _describe_path_parameters(rule: Rule) -> Iterator[dict[str, Any]]:
    for name in sorted(rule.arguments):
        is_uuid = isinstance(rule._converters[name], UUIDConverter)
        schema = {"type": "string"} | ({"format": "uuid"} if is_uuid else {})
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _describe_query_parameters(query: type[BaseModel] | None) -> Iterator[dict[str, Any]]:
    if query is None:
        return
    schema = query.model_json_schema(ref_template=SCHEMAS + "{model}")
    for name, value in schema["properties"].items():
        parameter = {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": value}
        if "description" in value:
            parameter["description"] = value.pop("description")
        yield parameter


def _describe_response(status: int, contents: tuple[Content, ...], refs: dict[Any, Any]) -> dict[str, Any]:
    types: dict[str, Any] = {}
    for content in contents:
        if inspect.isclass(content):
            types[JSON] = {"schema": refs[content, "serialization"]}
        elif content is not None:
            types[str(content)] = {"schema": {} if content == JSON else {"type": "string"}}
    answer: dict[str, Any] = {"description": http.HTTPStatus(status).phrase}
    return answer | ({"content": types} if types else {})
