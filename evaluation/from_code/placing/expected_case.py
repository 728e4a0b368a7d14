"""What the original did in a call, to compare variants with."""

from __future__ import annotations

import json
from typing import Any


class ExpectedCase:
    """A call and what the original did: its outcome, its steps, and the views that run the function, None if not
    known."""

    def __init__(self, call: str, expected: dict[str, Any], steps: int, dependent: list[list[str]] | None) -> None:
        self.call = call
        self.tree = json.loads(call)
        self.steps = steps
        self.without_views = {name: part for name, part in expected.items() if name != "seen"}
        self.shared = frozenset[str](expected.get("shared", ()))
        self.seen: list[Any] = expected.get("seen", [])
        self.tried = False
        self.returned = _write_tree(expected["returned"]) if "returned" in expected else None
        self.after = _write_tree(expected["after"]) if "after" in expected else call
        self.names = names = [frozenset(name for name, _ in views) for views in self.seen]
        self.dependent = names
        if self.seen and dependent is not None:  # else the views were dropped after they had been noted
            self.dependent = [own & set(ran) for own, ran in zip(names, dependent, strict=True)]

    def repeats(self, row: dict[str, Any]) -> bool:
        """Whether an outcome is the original's, to the letter."""
        if self.returned is None or ("iterator" in row) != ("iterator" in self.without_views):
            return False
        return bool(row.get("returned") == self.returned and row.get("after", self.call) == self.after)

    def list_wanted(self, row: dict[str, Any]) -> list[frozenset[str]]:
        """The names of the views to compare, for each argument and the result: where the state is the original's,
        only those that run the function."""
        if not self.seen:
            return []
        arguments = self.dependent if row.get("after", self.call) == self.after else self.names
        result = self.dependent if row.get("returned") == self.returned else self.names
        return [*arguments[:-1], result[-1]]


def _write_tree(tree: Any) -> str:
    """The text of a tree, as `values.serialize` writes it."""
    return json.dumps(tree, separators=(",", ":"))
