"""The driver in JavaScript: the text of driver.js with the signature."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from evaluation.languages.cases import Signature
from evaluation.languages.types import Type

_DRIVER = (resources.files("evaluation.languages.javascript") / "driver.js").read_text("utf-8")
UNCHANGED = "(text) => text"


def files(program: str, signature: Signature) -> Mapping[str, str]:
    """The files of a judgement."""
    return files_with(program, signature, UNCHANGED)


def whole(program: str, test: str) -> Mapping[str, str]:
    """The files of a program that its test is part of."""
    return {"driver.cjs": f"{program}\n{test}"}


def files_with(program: str, signature: Signature, prepare: str) -> Mapping[str, str]:
    """The same; `prepare` is a function in JavaScript that makes a script of the program's text."""
    facts = {
        "name": signature.name,
        "parameters": [_nested(each.type) for each in signature.parameters],
        "returns": _nested(signature.returns),
    }
    head = f"const SIGNATURE = {json.dumps(facts)};\nconst prepared = {prepare};\n"
    return {"driver.cjs": f'"use strict";\n{head}{_DRIVER}', "answer.js": program}


def _nested(kind: Type) -> list[Any]:
    return [kind.kind, *map(_nested, kind.parts)]
