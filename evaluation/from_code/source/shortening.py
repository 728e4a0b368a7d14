"""Shortens values so that a reader still sees their type and first items: valid Python, of the same type."""

from __future__ import annotations

import ast
import copy

MAX_ITEMS = 4
MAX_TEXT = 60
MAX_DEPTH = 3
_ELLIPSIS = ast.Constant(...)


def shorten_value(value: ast.expr, depth: int = 0) -> ast.expr:
    """The expression with the first items of its lists, dicts, sets and tuples and the beginnings of its texts."""
    if depth > MAX_DEPTH and not isinstance(value, ast.Constant):
        return _ELLIPSIS
    short = copy.copy(value)
    match short:
        case ast.Constant(value=str() | bytes() as text):
            short.value = _shorten_text(text)
        case ast.Dict():
            more = len(short.values) > MAX_ITEMS
            short.values = [*(shorten_value(each, depth + 1) for each in short.values[:MAX_ITEMS]), *[_ELLIPSIS] * more]
            keys = short.keys[:MAX_ITEMS]
            short.keys = [*(key and shorten_value(key, depth + 1) for key in keys), *[_ELLIPSIS] * more]
        case ast.List() | ast.Set() | ast.Tuple():
            more = len(short.elts) > MAX_ITEMS
            short.elts = [*(shorten_value(each, depth + 1) for each in short.elts[:MAX_ITEMS]), *[_ELLIPSIS] * more]
        case ast.Call():  # of what it is made with, all arguments count: re.compile, frozenset, dict
            short.args = [shorten_value(each, depth) for each in short.args]
            short.keywords = [ast.keyword(each.arg, shorten_value(each.value, depth)) for each in short.keywords]
        case ast.BinOp():
            short.left, short.right = shorten_value(short.left, depth), shorten_value(short.right, depth)
        case ast.Starred():
            short.value = shorten_value(short.value, depth)
    return short


def _shorten_text(text: str | bytes) -> str | bytes:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}..." if isinstance(text, str) else text[:MAX_TEXT] + b"..."


def format_value(value: ast.expr, max_chars: int) -> str:
    """The value in one line; what stays longer than `max_chars` as `...`."""
    text = ast.unparse(value)
    if len(text) > max_chars:
        text = ast.unparse(shorten_value(value))
    return text if len(text) <= max_chars and "\n" not in text else "..."
