"""The source of the modules that a module imports, from the project and from installed packages in Python."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.project import Module, Project

MAX_CHARS = 3_000_000


class ModuleSources:
    """Modules by name: the project's, and those in folders of installed packages."""

    def __init__(self, project: Project, folders: Sequence[str]) -> None:
        self._project = project
        self._folders = [Path(folder) for folder in folders]
        self._found: dict[str, Module | None] = {}
        self._imports: dict[str, list[str]] = {}

    def find_module(self, name: str) -> Module | None:
        """The module of this name, None where there is no source of it or the standard library has it."""
        if name in self._project.modules:
            return self._project.modules[name]
        if name not in self._found:
            top = name.partition(".")[0]
            standard = top in sys.stdlib_module_names
            found = () if standard else (_read_module(folder, name) for folder in self._folders)
            self._found[name] = next(filter(None, found), None)
        return self._found[name]

    def find_closure(self, module: Module) -> dict[str, Module]:
        """The modules that this one or its functions may import, and itself; by name, in order.

        Raises ExcludedError where they are too large.
        """
        found: dict[str, Module] = {}
        todo = [*_list_with_packages(module.name)]
        chars = 0
        while todo:
            name = todo.pop()
            each = self.find_module(name)
            if name in found or each is None:
                continue
            found[name] = each
            chars += len(each.source)
            if chars > MAX_CHARS:
                raise ExcludedError(f"needs modules of more than {MAX_CHARS // 1_000_000} million characters")
            if name not in self._imports:
                self._imports[name] = list(_iterate_imports(each))
            todo.extend(part for other in self._imports[name] for part in _list_with_packages(other))
        return dict(sorted(found.items()))


def _read_module(folder: Path, name: str) -> Module | None:
    base = folder.joinpath(*name.split("."))
    for file in (base / "__init__.py", base.with_name(base.name + ".py")):
        try:
            return Module.read(file, str(file), name)
        except (OSError, UnicodeError, SyntaxError, ValueError, RecursionError):
            continue
    return None


def _list_with_packages(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def _iterate_imports(module: Module) -> Iterator[str]:
    """The names of modules that a module's statements may import."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_import(module, node)
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names if alias.name != "*")


def resolve_import(module: Module, node: ast.ImportFrom) -> str:
    """The full name of the module that a statement imports from."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    parts = parts[: len(parts) - node.level + (1 if module.is_package else 0)]
    return ".".join([*parts, *([node.module] if node.module else [])])
