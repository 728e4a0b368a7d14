"""Types as TypeScript writes them; literals are JavaScript's."""

from __future__ import annotations

from evaluation.languages.javascript import types as javascript
from evaluation.languages.javascript.types import literal
from evaluation.languages.types import Type

__all__ = ["literal", "name"]


def name(kind: Type) -> str:
    """The type as a declaration writes it."""
    parts = [name(part) for part in kind.parts]
    if kind.kind == "list":
        return f"({parts[0]})[]" if "|" in parts[0] else f"{parts[0]}[]"
    if kind.kind == "tuple":
        return f"[{', '.join(parts)}]"
    if kind.kind == "dict":
        key = "number" if parts[0] == "number" else "string"
        return f"Record<{key}, {parts[1]}>"
    if kind.kind == "optional":
        return f"{parts[0]} | null"
    return javascript.name(kind)
