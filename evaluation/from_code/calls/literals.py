"""Values as Python literals, as tests and prompts write them."""

from __future__ import annotations

import json
import math
from typing import Any

from evaluation.from_code.recording.values import OpaqueObject, read_plain


def format_literal(value: Any) -> str:
    """An expression for a plain value, the same in every process; an object by its class and attributes."""
    if isinstance(value, OpaqueObject):
        return _format_tree(value.tree)
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(format_literal, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(format_literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{format_literal(key)}: {format_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, set):
        return "{" + ", ".join(sorted(map(format_literal, value))) + "}" if value else "set()"
    if isinstance(value, frozenset):
        return f"frozenset({format_literal(set(value)) if value else ''})"
    if isinstance(value, range) and value.step == 1:
        return f"range({value.start}, {value.stop})"
    return repr(value)


def needs_same(value: Any) -> bool:
    """Whether `==` alone is not enough: floats have a tolerance, and 1 is not True, nor 0 False."""
    if isinstance(value, float) or (isinstance(value, int) and value in (0, 1)):
        return True
    if isinstance(value, dict):
        return any(needs_same(part) for item in value.items() for part in item)
    return isinstance(value, list | tuple | set | frozenset) and any(map(needs_same, value))


def has_mutable_argument(arguments: tuple[Any, dict[str, Any]]) -> bool:
    """Whether a function could change one of these arguments."""
    positional, named = arguments
    todo = [*positional, *named.values()]
    while todo:
        value = todo.pop()
        if isinstance(value, list | dict | set):
            return True
        if isinstance(value, tuple):
            todo.extend(value)
    return False


def format_arguments(text: str) -> list[str]:
    """The arguments of a written call, or of what it left of them, each as a reader sees it."""
    args, kwargs = read_plain(text)
    return [*map(format_literal, args), *(f"{name}={format_literal(value)}" for name, value in kwargs.items())]


def _format_tree(tree: Any) -> str:
    if not isinstance(tree, dict) or tree.keys() & {"dict", "tuple", "set", "frozenset", "float", "bytes", "range"}:
        return format_literal(read_plain(json.dumps(tree)))
    ((tag, body),) = tree.items()
    if tag == "number":
        return _format_tree(body[1])
    if tag == "object":
        content = [_format_tree(part) for part in [body[1]] if part]
        content += [f"{key}={_format_tree(part)}" for key, part in body[2] if not _is_method_of_shown(part)]
        return f"<{_drop_module(body[0])} {' '.join(content)}>"
    if tag == "member":
        return f"{_drop_module(body[0])}.{body[1]}"
    if tag == "method":
        return f"{_format_tree(body[0])}.{body[1]}"
    return "..." if tag == "ref" else _drop_module(str(body))


def _is_method_of_shown(tree: Any) -> bool:
    """Whether it is a method of an object that is shown in full elsewhere: `_add = _items.append` says nothing new."""
    match tree:
        case {"method": [{"ref": _}, _]}:
            return True
    return False


def _drop_module(name: str) -> str:
    return name.rpartition(":")[2]
