"""The driver is JavaScript's; Node removes the types of the program first."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.languages.cases import Signature
from evaluation.languages.javascript.driver import files_with

_WITHOUT_TYPES = '(text) => require("node:module").stripTypeScriptTypes(text, { mode: "transform" })'
"""`transform` also knows what has an effect: enums, namespaces and parameter properties."""

_START = 'module._compile(({})(require("node:fs").readFileSync("answer.ts", "utf8")), "answer.ts");\n'


def files(program: str, signature: Signature) -> Mapping[str, str]:
    """The files of a judgement."""
    return files_with(program, signature, _WITHOUT_TYPES)


def whole(program: str, test: str) -> Mapping[str, str]:
    """The files of a program that its test is part of."""
    return {"driver.cjs": _START.format(_WITHOUT_TYPES), "answer.ts": f"{program}\n{test}"}
