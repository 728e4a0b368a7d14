"""Plain values as Python literals, as a test writes them."""

from __future__ import annotations

import math
from typing import Any


def literal(value: Any) -> str:
    """An expression for the value that contains literals only. The same value gives the same text in every process."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, set):
        return "{" + ", ".join(sorted(map(literal, value))) + "}" if value else "set()"
    if isinstance(value, frozenset):
        return f"frozenset({literal(set(value)) if value else ''})"
    if isinstance(value, range) and value.step == 1:
        return f"range({value.start}, {value.stop})"
    return repr(value)


def has_float(value: Any) -> bool:
    """Whether a float is in the value, so that a test has to compare it with a tolerance."""
    if isinstance(value, float):
        return True
    if isinstance(value, dict):
        return any(has_float(part) for item in value.items() for part in item)
    return isinstance(value, list | tuple | set | frozenset) and any(map(has_float, value))
