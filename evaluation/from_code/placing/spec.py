"""Where an answer runs: the source of its module before and after the function, and of the modules it imports.

A dataset stores this with each task, compressed. The function's own body is in none of it.
"""

from __future__ import annotations

import ast
import base64
import bz2
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from evaluation.from_code.loading import build_loader, compile_to_text, read_part_source
from evaluation.from_code.placing.definitions import name_module_file, render_module
from evaluation.from_code.placing.steps import FILE
from evaluation.source import parse

MAX_CONTENT = 4_000_000
"""A stored placement may unpack to four times as many bytes."""
ENTRY = "__bassline_entry__"
CALLS, VALUES = "call", "outcome"
"""Forms of a test: it calls the function with plain data, or hands over calls and receives outcomes as texts."""
_METHODS = {CALLS: "call", VALUES: "run_to_json"}
"""The method of PlacedAnswer that a form calls; datasets store the form."""
_PARTS = (
    "recording.objects",
    "recording.values",
    "placing.definitions",
    "placing.tree_equality",
    "placing.views",
    "placing.sharing",
    "placing.steps",
    "placing.task_modules",
    "placing.expected_case",
    "placing.module_runner",
)


class PlacementError(ValueError):
    """A stored placement that cannot be read."""


@dataclass(frozen=True)
class FunctionPlacement:
    """A function's place in the module `name`. `modules` are (is a package, source) by name, without that one."""

    name: str
    package: bool
    function: str
    before: str
    after: str
    indent: str = ""
    siblings: tuple[str, ...] = ()  # names of all functions in its class
    modules: Mapping[str, tuple[bool, str]] = field(default_factory=dict)
    form: str = CALLS

    def build_program(self, answer: str, method: str = "", compiles: bool = False) -> str:
        """The complete program with an answer in its module; ENTRY is PlacedAnswer's `method`, else that of the
        `form`.

        With `compiles` the project's modules and the answer are compiled here (not run), once for all programs: for our
        variants, never for a model's answer.
        """
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        content["codes"] = self._compile_modules(content, answer) if compiles else {}
        load, inside = build_loader(*_PARTS)
        placed = f"{inside}.PlacedAnswer(json.loads({json.dumps(content)!r}), {answer!r}, __bassline_compile__)"
        return f"import json{load}{ENTRY} = {placed}.{method or _METHODS[self.form]}\n"

    def _compile_modules(self, content: dict[str, Any], answer: str) -> dict[str, str]:
        codes = {
            name: compile_to_text(source, name_module_file(name, is_package))
            for name, (is_package, source) in self.modules.items()
        }
        tree = parse(answer)
        return codes if tree is None else {**codes, self.name: compile_to_text(render_module(content, tree)[0], FILE)}

    def pack(self) -> dict[str, Any]:
        """As JSON data that a dataset stores."""
        names = ("before", "after", "indent", "siblings", "modules")
        content = json.dumps({name: getattr(self, name) for name in names}, sort_keys=True)
        sources = base64.b64encode(bz2.compress(content.encode("utf-8", "surrogatepass"))).decode()
        facts = {"name": self.name, "package": self.package, "function": self.function, "form": self.form}
        return {**facts, "sources": sources}

    def keep_modules(self, loaded: Sequence[str]) -> FunctionPlacement:
        """With the modules alone that were loaded."""
        return replace(self, modules={name: each for name, each in self.modules.items() if name in loaded})


def unpack_placement(stored: Mapping[str, Any]) -> FunctionPlacement:
    """The placement that a dataset stores. Raises PlacementError."""
    try:
        facts = {name: stored[name] for name in ("name", "package", "function", "form")}
        content = _unpack_content(stored["sources"])
        spec = FunctionPlacement(**facts, **{**content, "siblings": tuple(content["siblings"])})
    except (KeyError, TypeError, ValueError, OSError, EOFError) as error:
        raise PlacementError(f"field module: cannot be read ({type(error).__name__})") from None
    texts = (spec.name, spec.function, spec.before, spec.after, spec.indent)
    if not all(isinstance(text, str) for text in texts) or spec.form not in (CALLS, VALUES):
        raise PlacementError("field module: is not what `bassline datasets from-code` writes")
    return spec


@lru_cache(maxsize=8)
def _unpack_content(sources: str) -> dict[str, Any]:
    decompressor = bz2.BZ2Decompressor()
    content = decompressor.decompress(base64.b64decode(sources, validate=True), 4 * MAX_CONTENT)
    if not decompressor.eof:
        raise ValueError("too large")
    found = json.loads(content.decode("utf-8", "surrogatepass"))
    if not isinstance(found, dict) or found.keys() != {"before", "after", "indent", "siblings", "modules"}:
        raise ValueError("other fields")
    return found


def read_comparison_source() -> str:
    """The functions that compare outcomes, as source for a test."""
    text = read_part_source("placing.tree_equality")
    tree = ast.parse(text)
    first = next(node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))
    return "".join(text.splitlines(keepends=True)[first.lineno - 1 :])
