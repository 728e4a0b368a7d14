"""Pure-Python packages that the operator allows programs in the sandbox to import, as a read-only copy.

A copy holds the named packages alone: the folder of installed packages may contain the dataset, and compiled modules.
It lies where the unprivileged user of the sandbox can read it, and each process checks it before it uses it.
"""

from __future__ import annotations

import compileall
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode

MAX_BYTES = 64 * 2**20
_COMPILED = (".so", ".pyd", ".dll", ".dylib", ".a", ".o")
_SKIPPED = ("__pycache__", "tests", "test")


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
    return Packages(folder, tuple((name, _get_version(name)) for name in sorted(set(names))), hash_files(files))


def stage_files(kind: str, files: dict[str, bytes], compiled: bool = False) -> str:
    """The folder that holds exactly these files, by their paths in it, for the sandbox to read; made if it is not
    there. Raises PackagesError where somebody else has a folder of that name.

    `compiled`: with bytecode, which no process in the sandbox can write.
    """
    sha256 = hash_files(files)
    folder = Path(tempfile.gettempdir()) / f"bassline-{kind}-{os.geteuid()}-{sha256[:16]}"
    if not _is_intact(folder, sha256, compiled):
        _write(folder, files, compiled)
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


def _get_version(name: str) -> str:
    for distribution in importlib.metadata.packages_distributions().get(name, ()):
        return importlib.metadata.version(distribution)
    return ""


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
        try:
            partial.rename(folder)
        except OSError:
            if folder.is_symlink() or folder.lstat().st_uid != os.geteuid():
                raise PackagesError(f"{folder} belongs to somebody else: delete it, or set TMPDIR") from None
            shutil.rmtree(folder)
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
