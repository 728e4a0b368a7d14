"""Writes docs/settings.md from the settings class: `python -m tests.settings_page` after a change to it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import ByteSize, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from app.core.settings import Settings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
HEAD = """# Settings

Made from `app/core/settings.py`; do not edit it here. Set them in the environment or in a file `.env` in the working
folder. A wrong value stops the program with a sentence that names the variable.

|variable|type|default|meaning|
|---|---|---|---|
"""
NAMES = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    Path: "path",
    ByteSize: "bytes",
    SecretStr: "secret",
}


def build_page() -> str:
    """The whole page."""
    return HEAD + "".join(map(format_row, Settings.model_fields, Settings.model_fields.values()))


def format_row(name: str, field: FieldInfo) -> str:
    default = field.get_default()
    if name == "engine_memory":
        default = "auto"  # of which the validator makes None
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    written = "empty" if default in (None, PydanticUndefined, "") or isinstance(default, SecretStr) else f"`{shown}`"
    # Without spaces around them, so that the bars are no words of the page.
    return f"|{'|'.join((f'`BASSLINE_{name.upper()}`', name_type(field), written, field.description or ''))}|\n"


def name_type(field: FieldInfo) -> str:
    """The type in words, with its range."""
    kind: Any = field.annotation
    if isinstance(kind, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    words = get_args(kind) if get_origin(kind) is Literal else kind if issubclass(kind, Enum) else ()
    if words:
        return ", ".join(f"`{word}`" for word in words)
    bounds = [
        f"{sign} {getattr(mark, word):g}"
        for mark in field.metadata
        for kind_of_bound, sign, word in ((Ge, "≥", "ge"), (Gt, ">", "gt"), (Le, "≤", "le"))
        if isinstance(mark, kind_of_bound)
    ]
    return " ".join([NAMES.get(kind, "text"), ", ".join(bounds)]).strip()


if __name__ == "__main__":
    PAGE.write_text(build_page())
