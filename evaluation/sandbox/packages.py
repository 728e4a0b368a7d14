"""Packages in the sandbox as read-only copies: pure-Python ones that the operator allows programs to import, and the
judge's own, such as numpy, which tests of HumanEval+ and MBPP+ use.

A copy holds the named packages alone: the folder of installed packages may contain the dataset, and compiled modules.
It lies where the unprivileged user of the sandbox can read it, and each process checks it before it uses it.
The judge's packages are in the checker, and in the process of a program only where its test runs there. Only a slot
that judges such a test loads them, so other verdicts cost no more.
"""

from __future__ import annotations

import ast
import compileall
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode

from filelock import FileLock

from evaluation.source import parse

MAX_BYTES = 64 * 2**20
_COMPILED = (".so", ".pyd", ".dll", ".dylib", ".a", ".o")
_SKIPPED = ("__pycache__", "tests", "test")
JUDGE_PACKAGES = ("numpy",)
JUDGE_MODULES = ("numpy", "numpy.testing")
"""What is imported beforehand. The first is all that most tests use; older ones call numpy.testing.assert_allclose."""
_JUDGE_FOLDERS = ("numpy", "numpy.libs")
_SKIPPED_OF_JUDGE = frozenset(("__pycache__", "tests", "f2py", "distutils", "include"))
_NOT_LOADED = (".pyi", ".a", ".h", ".c", ".txt", ".pxd")


class PackagesError(ValueError):
    """A package that cannot be allowed; one sentence with the remedy."""


@dataclass(frozen=True, slots=True)
class Packages:
    """A copy of packages: its folder, their import names and versions, and the sha256 of all files in it."""

    folder: str
    versions: tuple[tuple[str, str], ...]
    sha256: str

    @property
    def names(self) -> frozenset[str]:
        """The import names."""
        return frozenset(name for name, _version in self.versions)

    @property
    def label(self) -> str:
        """The packages in a few words: names, versions and the start of the hash."""
        listed = ", ".join(f"{name} {version}".strip() for name, version in self.versions)
        return f"{listed} ({self.sha256[:8]})"


@functools.cache
def stage_packages(names: tuple[str, ...]) -> Packages | None:
    """The copy of these packages of this environment, made if it is not there; None for no names.

    Raises PackagesError where one is not installed, not pure Python or too large.
    """
    if not names:
        return None
    files = {path: content for name in sorted(set(names)) for path, content in _iterate_files(name)}
    if sum(map(len, files.values())) > MAX_BYTES:
        raise PackagesError(f"the packages {', '.join(names)} have more than {MAX_BYTES // 2**20} MiB: allow fewer")
    folder = stage_files("packages", files)
    owners = importlib.metadata.packages_distributions()
    versions = [
        (name, importlib.metadata.version(owners[name][0]) if owners.get(name) else "") for name in sorted(set(names))
    ]
    return Packages(folder, tuple(versions), hash_files(files))


def stage_files(kind: str, files: dict[str, bytes], compiled: bool = False) -> str:
    """The folder that holds exactly these files, by their paths in it, for the sandbox to read; made if it is not
    there. Raises PackagesError where it cannot be made, or where somebody else has a folder of that name.

    `compiled`: with bytecode, which no process in the sandbox can write.
    """
    sha256 = hash_files(files)
    folder = Path(tempfile.gettempdir()) / f"bassline-{kind}-{os.geteuid()}-{sha256[:16]}"
    try:
        # Sandboxes of another process may have its folder mounted already: it must not be replaced by its equal.
        with FileLock(f"{folder}.lock"):
            if not _is_intact(folder, sha256, compiled):
                _write(folder, files, compiled)
    except OSError as error:
        raise PackagesError(f"{folder} cannot be made: {error.strerror or error}: delete it, or set TMPDIR") from error
    return str(folder)


def _iterate_files(name: str) -> Iterator[tuple[str, bytes]]:
    """(path in the copy, content) of a package's files."""
    if not name.isidentifier():
        raise PackagesError(f"{name!r} is not an import name: give names such as text_unidecode")
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin:
        raise PackagesError(f"the package {name} is not installed beside Bassline: install it there with pip")
    if not spec.submodule_search_locations:
        if not spec.origin.endswith(".py"):
            raise PackagesError(f"the package {name} is not written in Python: it cannot be allowed in the sandbox")
        yield f"{name}.py", Path(spec.origin).read_bytes()
        return
    root = Path(next(iter(spec.submodule_search_locations)))
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if any(part in _SKIPPED for part in relative.parts) or not path.is_file():
            continue
        if path.suffix in _COMPILED:
            raise PackagesError(
                f"the package {name} has compiled modules ({relative}): only pure Python can be allowed"
            )
        yield f"{name}/{relative.as_posix()}", path.read_bytes()


def hash_files(files: dict[str, bytes]) -> str:
    """The hash of files and their paths, whatever their order."""
    digest = hashlib.sha256()
    for path, content in sorted(files.items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _is_intact(folder: Path, sha256: str, compiled: bool) -> bool:
    """Whether the folder is ours, nobody else may write to it, and its content is intact."""
    try:
        every = [folder, *folder.rglob("*")]
        facts = [path.lstat() for path in every]
    except OSError:
        return False
    if any(fact.st_uid != os.geteuid() or fact.st_mode & 0o022 for fact in facts):
        return False
    given = [path for path in every if path.is_file() and not (compiled and path.parent.name == "__pycache__")]
    return hash_files({path.relative_to(folder).as_posix(): path.read_bytes() for path in given}) == sha256


def _write(folder: Path, files: dict[str, bytes], compiled: bool) -> None:
    partial = Path(tempfile.mkdtemp(prefix="bassline-packages-", dir=folder.parent))
    try:
        for relative, content in files.items():
            target = partial / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        if compiled:
            compileall.compile_dir(partial, quiet=2, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
        for path in [partial, *partial.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        if folder.is_symlink() or folder.exists():
            if folder.is_symlink() or folder.lstat().st_uid != os.geteuid():
                raise PackagesError(f"{folder} belongs to somebody else: delete it, or set TMPDIR")
            shutil.rmtree(folder)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@functools.cache
def stage_judge_packages(version: tuple[int, int]) -> str:
    """The folder of the judge's packages for an interpreter of that version.

    Raises PackagesError where they cannot be used with it.
    """
    if version != sys.version_info[:2]:
        raise PackagesError(
            f"numpy is here for Python {sys.version_info[0]}.{sys.version_info[1]}, and the sandbox's Python is "
            f"{version[0]}.{version[1]}: let the sandbox's user read a Python of Bassline's version"
        )
    spec = importlib.util.find_spec("numpy")
    if spec is None or spec.origin is None:
        raise PackagesError("numpy is not installed beside Bassline: install it there with pip")
    site = Path(spec.origin).parents[1]
    files = {path.relative_to(site).as_posix(): path.read_bytes() for path in _iterate_judge_files(site)}
    return stage_files("numpy", files, compiled=True)


@functools.lru_cache(maxsize=4096)
def find_outside_imports(source: str, standard: frozenset[str]) -> tuple[str, ...]:
    """The packages outside the standard library that a text cannot do without: imported, and in no `try` that has an
    `except`."""
    tree = parse(source)
    if tree is None:
        return ()
    return tuple(sorted({name for name in _iterate_imports(tree) if name and name not in standard}))


def _iterate_imports(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Try) and child.handlers:
            continue  # it goes on without
        if isinstance(child, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and not child.level:
            yield (child.module or "").partition(".")[0]
        elif not isinstance(child, ast.expr):  # no import is in an expression, and the values of a test are large
            yield from _iterate_imports(child)


def _iterate_judge_files(site: Path) -> Iterator[Path]:
    for folder in _JUDGE_FOLDERS:
        for path in sorted((site / folder).rglob("*")):
            parts = path.relative_to(site).parts
            if path.suffix not in _NOT_LOADED and not _SKIPPED_OF_JUDGE.intersection(parts) and path.is_file():
                yield path
