"""The docstring of a task in the words of another language: its examples are calls there."""

from __future__ import annotations

import ast
import re

from evaluation.languages.base import Language, UnsupportedError
from evaluation.languages.cases import Signature
from evaluation.languages.types import Type
from evaluation.languages.values import ValueFormError, from_json, to_json

_ARROW = re.compile(r"\s*(?:===?|=>|->|➞|→|⇒|=|returns?|should return|should be|#\s*=>)\s*:?\s*")
_TYPED = re.compile(r">>> ?|assert ")
_PROMPT = re.compile(r"(\s*)>>> ?(.*)")
_WORDS = {"True": (True, "bool"), "False": (False, "bool"), "None": (None, "none")}
_WORD = re.compile(r"\b(True|False|None)\b")


def translate_docstring(text: str, signature: Signature, language: Language) -> str:
    """The text with its readable examples translated, and other lines in the language's words."""
    lines, out, at = text.split("\n"), [], 0
    while at < len(lines):
        example, used = _read_example(lines, at, signature, language)
        out.append(_translate_words(lines[at], language) if example is None else example)
        at += used
    return "\n".join(out)


def _read_example(lines: list[str], at: int, signature: Signature, language: Language) -> tuple[str | None, int]:
    """The example that starts in a line and how many lines it takes; (None, 1) for another line."""
    if (typed := _PROMPT.fullmatch(lines[at])) is not None:
        end = at + 1
        while end < len(lines) and lines[end].strip() and not _PROMPT.fullmatch(lines[end]):
            end += 1
        for last in range(end, at + 1, -1):  # prose may follow the result without a blank line
            result = "\n".join(line.strip() for line in lines[at + 1 : last])
            if (shown := _format_example(typed[2], result, signature, language)) is not None:
                return typed[1] + shown, last - at
    line = lines[at]
    start = line.find(f"{signature.name}(")
    for end in [i + 1 for i, letter in enumerate(line) if letter == ")" and i > start >= 0]:
        if (arrow := _ARROW.match(line, end)) is None:
            continue
        shown = _format_example(line[start:end], line[arrow.end() :].rstrip(" .;,"), signature, language)
        if shown is not None:
            return _TYPED.sub("", line[:start]) + shown, 1
    return None, 1


def _format_example(call: str, result: str, signature: Signature, language: Language) -> str | None:
    """The example in the language; None where call or result cannot be read."""
    try:
        tree = ast.parse(call.strip(), mode="eval").body
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.func.id != signature.name:
            return None
        if tree.keywords or len(tree.args) != len(signature.parameters):
            return None
        args = [
            _format_literal(ast.literal_eval(node), each.type, language)
            for node, each in zip(tree.args, signature.parameters, strict=True)
        ]
        expected = _format_literal(ast.literal_eval(result.strip()), signature.returns, language)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, UnsupportedError):
        return None
    return language.write_example(signature.write_call(args), expected)


def _format_literal(value: object, kind: Type, language: Language) -> str:
    try:
        return language.write_literal(from_json(to_json(value, kind), kind), kind)
    except ValueFormError as error:
        raise ValueError(str(error)) from None


def _translate_words(line: str, language: Language) -> str:
    """A line of prose with the language's own words for True, False and None."""

    def word(found: re.Match[str]) -> str:
        value, kind = _WORDS[found[0]]
        try:
            return language.write_literal(value, Type(kind))
        except UnsupportedError:
            return found[0]

    return _WORD.sub(word, line)
