"""The source files of a project."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
import tomllib
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from evaluation.from_code.reasons import ProjectError
from evaluation.from_code.source.files import iterate_source_files
from evaluation.from_code.source.ignored import run_git

MAX_FILE_BYTES = 2 * 2**20
MAX_FILES = 5000
_LICENCES = re.compile(r"(?i)(licen[cs]e|copying|unlicense)([-.].*)?")


@dataclass(frozen=True)
class Module:
    """One source file. `path` is relative to the project's root, absolute for a module that the project imports from an
    installed package; `name` is dotted."""

    path: str
    name: str
    is_package: bool
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(self.source)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the source with their ends, as Python counts them: a form feed ends none."""
        return io.StringIO(self.source, newline="\n").readlines()

    @classmethod
    def read(cls, file: Path, path: str, name: str) -> Module:
        """The module in a file. Raises OSError or ValueError, also for one that is too large."""
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ValueError(f"it is larger than {MAX_FILE_BYTES // 2**20} MiB")
        with tokenize.open(file) as opened:
            module = cls(path, name, file.name == "__init__.py", opened.read())
        _ = module.tree
        return module

    def get_indent(self, line: int) -> str:
        """The white space that a line begins with; it may hold tabs."""
        text = self.lines[line - 1]
        return text[: len(text) - len(text.lstrip())]


@dataclass(frozen=True)
class Project:
    """The source files of a project."""

    name: str
    root: Path
    modules: dict[str, Module]  # by dotted name
    # reasons for source files that are not used, by path: unreadable, or with the module name of another
    unread: dict[str, str] = field(default_factory=dict)
    # reasons for files and folders that are not its source, by path
    skipped: dict[str, str] = field(default_factory=dict)
    import_roots: tuple[Path, ...] = ()  # the folders from which the modules are imported

    @cached_property
    def sha256(self) -> str:
        """The hash of all its source files, with their paths."""
        digest = hashlib.sha256()
        for module in sorted(self.modules.values(), key=lambda module: module.path):
            digest.update(f"{module.path}\0{module.source}\0".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def list_top_names(self) -> frozenset[str]:
        """The first parts of the modules' names: imports of these are imports of the project."""
        return frozenset(name.partition(".")[0] for name in self.modules)


def open_project(target: str) -> Project:
    """The project in a folder. Raises ProjectError."""
    root = Path(target).resolve()
    if not root.is_dir():
        raise ProjectError(f"there is no folder {target}: give the folder of a project")
    skipped: dict[str, str] = {}
    modules: dict[str, Module] = {}
    unread: dict[str, str] = {}
    roots: dict[Path, None] = {}
    for number, file in enumerate(iterate_source_files(root, skipped)):
        if number >= MAX_FILES:
            raise ProjectError(f"{root} has more than {MAX_FILES} Python files: name a folder inside it")
        path = file.relative_to(root).as_posix()
        try:
            module = _read_module(root, file, path)
        except SyntaxError as error:
            unread[path] = f"Python cannot parse it: {error.msg} (line {error.lineno})"
            continue
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            unread[path] = str(error) or type(error).__name__
            continue
        if module.name in modules:
            unread[path] = f"{modules[module.name].path} has the same module name, {module.name}"
            continue
        modules[module.name] = module
        roots[_find_import_root(root, path)] = None
    if not modules and not unread:
        raise ProjectError(
            f"{root} holds no Python source outside its tests: give the folder of a Python project; put what notebooks "
            "define into modules (.py), and write tasks in other languages as a case file (docs/languages.md)"
        )
    return Project(read_metadata(root, "name") or root.name, root, modules, unread, skipped, tuple(roots))


def read_metadata(folder: Path, field: str) -> str:
    """The `name` or `version` of the distribution in a folder, "" where it declares none."""
    try:
        declared = tomllib.loads((folder / "pyproject.toml").read_text("utf-8")).get("project", {}).get(field)
        if isinstance(declared, str) and declared.isprintable():
            return declared
    except (OSError, ValueError):
        pass
    try:
        found = re.search(rf"^{field.title()}: (\S+)", (folder / "PKG-INFO").read_text("utf-8"), re.MULTILINE)
    except (OSError, ValueError):
        return ""
    return found[1] if found else ""


def _read_module(root: Path, file: Path, path: str) -> Module:
    parts = file.relative_to(_find_import_root(root, path)).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or file.parent.name
    return Module.read(file, path, name)


def _find_import_root(root: Path, path: str) -> Path:
    """The folder above the outermost package that holds the file; `src` layouts and plain folders included."""
    folder = (root / path).parent
    while folder != root and (folder / "__init__.py").exists():
        folder = folder.parent
    if folder == root and (folder / "__init__.py").exists():
        return root.parent
    return folder


@dataclass(frozen=True)
class Origin:
    """Where the source of a project comes from; "" for what is unknown."""

    commit: str  # of the git repository, with `-dirty` where files differ from it
    version: str  # of the distribution
    licence: str  # a file in the project's folder


def find_origin(project: Project) -> Origin:
    """The origin of a project's source."""
    return Origin(_find_commit(project), read_metadata(project.root, "version"), _find_licence(project.root))


def _find_commit(project: Project) -> str:
    paths = sorted(module.path for module in project.modules.values())
    head = run_git(project.root, "rev-parse", "HEAD").strip()
    tracked = run_git(project.root, "ls-files", "--", *paths[:1])  # the folder may lie ignored in another repository
    if not head or not tracked:
        return ""
    changed = run_git(project.root, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return head + ("-dirty" if changed else "")


def _find_licence(root: Path) -> str:
    try:
        names = sorted(path.name for path in root.iterdir() if path.is_file() and _LICENCES.fullmatch(path.name))
    except OSError:
        return ""
    return names[0] if names else ""
