"""Which fields of a dataset's file decide, and which play no part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.web.ui.units import format_count


@dataclass
class FieldUse:
    """How many tasks each field (or group of fields) judges, and in how many it is present but unused."""

    judged_by: Counter[str] = field(default_factory=Counter)
    not_used: Counter[str] = field(default_factory=Counter)

    def describe(self, n_tasks: int) -> str:
        """Both in one line, with the number of tasks where it is not all of them."""
        parts = [f"judged by {_list(self.judged_by, n_tasks)}"]
        if self.not_used:
            parts.append(f"fields not used: {_list(self.not_used, n_tasks)}")
        return "; ".join(parts)


def summarize_fields(tasks: Iterable[tuple[Mapping[str, Any] | None, object]]) -> FieldUse:
    """The use of fields over tasks, each given by its source and by its signature, which a task with cases has."""
    use = FieldUse()
    for source, signature in tasks:
        facts = source or {}
        judged_by = facts.get("judged_by") or [facts.get("judge") or ("test" if signature is None else "cases")]
        use.judged_by[", ".join(map(str, judged_by))] += 1
        use.not_used.update(map(str, facts.get("not_used") or ()))
    return use


def _list(counts: Counter[str], n_tasks: int) -> str:
    return ", ".join(
        name if number == n_tasks else f"{name} ({format_count(number, 'task')})"
        for name, number in counts.most_common()
    )
