"""Prompts in TypeScript; what differs from JavaScript is the types in the head of the function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evaluation.languages.cases import Case, Signature
from evaluation.languages.javascript import prompt as javascript
from evaluation.languages.javascript.prompt import RESERVED, STOP, example
from evaluation.languages.typescript import types

__all__ = ["FENCES", "RESERVED", "STOP", "SYNTAX", "example", "oracle", "prompt"]
FENCES = ("typescript", "ts", "tsx", "mts", "cts", *javascript.FENCES)
SYNTAX = replace(
    javascript.SYNTAX,
    grammar="tree_sitter_typescript",
    factory="language_typescript",
    functions=(*javascript.SYNTAX.functions, "abstract_class_declaration"),
    kept=(
        *javascript.SYNTAX.kept,
        *("interface_declaration", "type_alias_declaration", "enum_declaration", "ambient_declaration", "module"),
    ),
)


def prompt(signature: Signature, text: str) -> str:
    """The doc comment and the head of the function, opened."""
    return javascript.doc_comment(text) + _head(signature)


def oracle(signature: Signature, cases: Sequence[Case]) -> str:
    """A program that answers from the table of cases."""
    return javascript.oracle_with(_head(signature), signature, cases)


def _head(signature: Signature) -> str:
    parameters = ", ".join(f"{each.name}: {types.name(each.type)}" for each in signature.parameters)
    return f"function {signature.name}({parameters}): {types.name(signature.returns)} {{\n"
