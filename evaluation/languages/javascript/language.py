"""Types as JSDoc names them, literals, drivers, prompts and oracles in JavaScript."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from importlib import resources
from typing import Any, ClassVar

from evaluation.languages.base import Language, Syntax, UnsupportedError, write_comment
from evaluation.languages.cases import Signature
from evaluation.languages.types import Type

_DRIVER = (resources.files("evaluation.languages.javascript") / "driver.js").read_text("utf-8")
MAX_INT = 2**53 - 1
_LEAST_WITHOUT_EXPONENT, _LEAST_WITH_EXPONENT = 1e-6, 1e21
"""Where JavaScript writes a number without an exponent."""


class JavaScript(Language):
    """JavaScript."""

    FENCES: ClassVar[tuple[str, ...]] = ("javascript", "js", "node", "nodejs", "jsx", "mjs", "cjs")
    SYNTAX = Syntax(
        "tree_sitter_javascript", "language",
        definitions=(
            *("function_declaration", "generator_function_declaration", "variable_declarator", "class_declaration"),
        ),
        kept=(
            *("lexical_declaration", "variable_declaration", "comment", "hash_bang_line"),
            *("if_statement", "for_statement", "for_in_statement", "while_statement", "statement_block"),
            *("expression_statement/assignment_expression", "expression_statement/augmented_assignment_expression"),
        ),
        wrappers=("export_statement",),
    )  # fmt: skip
    RESERVED = frozenset({
        "arguments", "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete",
        "do", "else", "enum", "eval", "export", "extends", "false", "finally", "for", "function", "if", "implements",
        "import", "in", "instanceof", "interface", "let", "new", "null", "package", "private", "protected", "public",
        "return", "static", "super", "switch", "this", "throw", "true", "try", "typeof", "undefined", "var", "void",
        "while", "with", "yield"
    })  # fmt: skip
    TYPES: ClassVar[Mapping[str, str]] = {
        **{"bool": "boolean", "int": "number", "float": "number", "str": "string", "none": "null"},
        **{"list": "{0}[]", "tuple": "[{all}]", "dict": "Object<{0}, {1}>", "optional": "{0} | null"},
    }
    PARAMETER = "{name}"
    HEAD = "function {name}({parameters}) {{\n"
    NONE = "null"
    FLOATS: ClassVar = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    ORACLE = 'const same = require("node:util").isDeepStrictEqual;\n'
    THROW = "throw new Error({})"
    TO_SCRIPT = "(text) => text"
    """A function in JavaScript that makes a script of the program's text."""

    def write_type(self, kind: Type) -> str:
        """The type as JSDoc writes it."""
        text = super().write_type(kind)
        return f"({text[:-2]})[]" if kind.name == "list" and "|" in text else text

    def write_int(self, value: int) -> str:
        """A literal of an int."""
        if abs(value) > MAX_INT:
            raise UnsupportedError("an int beyond 2**53")
        return str(value)

    def write_container(self, value: Any, kind: Type) -> str:
        """An expression for a list, tuple or dict."""
        if isinstance(value, dict):
            items = (f"{_format_key(key)}: {self.write_literal(item, kind.parts[1])}" for key, item in value.items())
            return f"{{{', '.join(items)}}}"
        return f"[{', '.join(self.write_items(value, kind))}]"

    def build_files(self, program: str, signature: Signature) -> Mapping[str, str]:
        """The files of a judgement: the text of driver.js with the signature, and the program."""
        facts = {
            "name": signature.name,
            "parameters": [_nest_type(each.type) for each in signature.parameters],
            "returns": _nest_type(signature.returns),
        }
        head = f"const SIGNATURE = {json.dumps(facts)};\nconst prepared = {self.TO_SCRIPT};\n"
        return {"driver.cjs": f'"use strict";\n{head}{_DRIVER}', "answer.js": program}

    def build_test_files(self, program: str, test: str) -> Mapping[str, str]:
        """The files of a program that its test is part of."""
        return {"driver.cjs": f"{program}\n{test}"}

    def write_prompt(self, signature: Signature, text: str) -> str:
        """The doc comment and the head of the function, opened."""
        tags = [f"@param {{{self.write_type(each.type)}}} {each.name}" for each in signature.parameters]
        tags.append(f"@returns {{{self.write_type(signature.returns)}}}")
        return write_doc_comment(text, tags) + self.write_head(signature)


def write_doc_comment(text: str, tags: Iterable[str] = ()) -> str:
    """A JSDoc comment of the text and the tags."""
    lines = [text.replace("*/", "*\\/").strip("\n"), *tags]
    return f"/**\n{write_comment(chr(10).join(lines), ' *')} */\n"


def _format_key(key: object) -> str:
    """The name of a property: what JavaScript makes of the key as a string."""
    if isinstance(key, bool):
        text = "true" if key else "false"
    elif isinstance(key, float):
        text = _format_number(key)
    else:
        text = str(key)
    return f"[{json.dumps(text)}]" if text == "__proto__" else json.dumps(text)


def _format_number(value: float) -> str:
    """The text of a number in JavaScript: the digits are Python's, the exponent begins elsewhere."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    if _LEAST_WITHOUT_EXPONENT <= abs(value) < _LEAST_WITH_EXPONENT:
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    digits, _, exponent = repr(value).partition("e")
    return f"{digits}e{int(exponent):+d}"


def _nest_type(kind: Type) -> list[Any]:
    return [kind.name, *map(_nest_type, kind.parts)]


LANGUAGE = JavaScript
