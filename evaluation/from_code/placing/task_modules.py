"""Gives the modules of a task to Python's import, and the version of its package to whoever asks."""

from __future__ import annotations

import importlib.machinery
import linecache
import re
import types
from collections.abc import Callable
from typing import Any, cast

from evaluation.from_code.placing.definitions import CAPTURE, name_module_file
from evaluation.from_code.placing.steps import FILE


class TaskModuleFinder:
    """Finds the modules of the task, first of all; `compile_module(source, file, code)` gives their code. It needs no
    base class: importing one is slow."""

    def __init__(
        self,
        modules: dict[str, tuple[bool, str]],
        codes: dict[str, str],
        compile_module: Callable[[str, str, str], Any],
    ) -> None:
        self.modules, self.codes, self.compile_module = modules, codes, compile_module

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The specification of a module of the task."""
        if name not in self.modules:
            return None
        is_package = self.modules[name][0]
        spec = importlib.machinery.ModuleSpec(name, cast(Any, self), is_package=is_package)
        spec.has_location = True
        spec.origin = name_module_file(name, is_package)
        if is_package:
            spec.submodule_search_locations = [spec.origin.rpartition("/")[0]]
        return spec

    def find_distributions(self, context: Any) -> list[Any]:
        """What `importlib.metadata` finds: many packages ask for their own version when they are imported."""
        asked = _normalize_distribution(str(context.name))
        owners = {_normalize_distribution(name.partition(".")[0]) for name in self.modules}
        return [_make_distribution(context.name)] if owners & {asked, asked.removeprefix("python-")} else []

    def create_module(self, spec: Any) -> None:
        """Leave the module to Python."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the module's source."""
        source, file = self.modules[module.__name__][1], module.__spec__.origin  # type: ignore[union-attr]
        if isinstance(source, str) and CAPTURE in source:
            file = FILE
            linecache.cache[FILE] = (len(source), None, source.splitlines(True), FILE)
        code = self.compile_module(source, str(file), self.codes.get(module.__name__, ""))
        exec(code, module.__dict__)


def _normalize_distribution(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _make_distribution(name: str) -> Any:
    """A distribution of that name, in version 0.0.0, without files."""
    from importlib.metadata import Distribution  # noqa: PLC0415 (slow, and whoever asks has imported it)

    class TaskDistribution(Distribution):
        def read_text(self, filename: str) -> str | None:
            text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.0\n"
            return text if filename == "METADATA" else None

        def locate_file(self, path: Any) -> Any:
            return path

    return TaskDistribution()
