"""The tiers of isolation, best first, and the command line that starts a zygote in each."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from dataclasses import dataclass

from evaluation.sandbox.interpreter import NOBODY, Interpreter

TIERS = ("bwrap", "landlock")
SCRATCH = "/scratch"
"""Where a zygote's private file system is mounted. Not below /tmp: staged projects may be there."""
PRELOAD = (
    "abc", "bisect", "cmath", "collections", "collections.abc", "contextlib", "copy", "ctypes", "dataclasses",
    "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "io", "itertools", "json",
    "math", "numbers", "operator", "re", "string", "struct", "textwrap", "time", "traceback", "types", "typing",
    "unicodedata", "array", "ast", "calendar",
)  # fmt: skip
"""The modules that a zygote imports before it forks. Without `threading` and `random`: their hooks run at every fork,
which costs more than importing them when needed."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a zygote may use beside Python: the trees of other programs that it starts and a folder for their jobs, or
    a file system in memory in which the tests of a project may write."""

    trees: tuple[str, ...] = ()  # can be read and executed
    folder: str = ""  # read and executed too; "" where the zygote starts no program
    writable: bool = False  # for a compiler: the folder can be written, and processes can be started
    scratch_bytes: int = 0  # the size of the folder SCRATCH; 0 for none


NO_GRANT = Grant()


@dataclass(frozen=True, slots=True)
class Tier:
    """A way to isolate."""

    name: str
    namespaces: bool = False
    disable_userns: bool = False
    landlock_required: bool = False
    hash_seed: str = "0"  # of texts, on which the order of sets depends

    @property
    def label(self) -> str:
        """Return the name for people; bubblewrap is tried twice."""
        return f"{self.name} (user namespaces disabled inside)" if self.disable_userns else self.name

    @property
    def has_scratch(self) -> bool:
        """Return whether a zygote can have a private file system of a limited size."""
        return self.namespaces and _supports_size_limit()

    def list_root_names(self, interpreter: Interpreter) -> list[str]:
        """Return the names that a listing of / may show inside: those bound there, none without a mount tree."""
        paths = (*interpreter.trees, interpreter.executable, *(path for _, path in interpreter.links), "/dev", "/tmp")
        return sorted({path.split("/")[1] for path in paths}) if self.namespaces else []

    def build_command(self, interpreter: Interpreter, arguments: list[str], grant: Grant) -> list[str]:
        """Return the command line that runs the interpreter with `arguments` in this tier.

        Raises RuntimeError where a program that the tier needs is not installed.
        """
        inner = [interpreter.executable, *interpreter.build_flags(), *arguments]
        if not self.namespaces:
            return inner
        bwrap = _find_bwrap()
        if bwrap is None:
            raise RuntimeError("bubblewrap (bwrap) is not installed")
        return [bwrap, *_build_bwrap_options(interpreter, self, grant), "--", *inner]


def _find_bwrap() -> str | None:
    return shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")


@functools.cache
def _supports_size_limit() -> bool:
    """Whether bubblewrap can limit the size of a file system in memory: since 0.7."""
    try:
        done = subprocess.run([_find_bwrap() or "", "--version"], capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    version = re.search(rb"(\d+)\.(\d+)", done.stdout)
    return version is not None and (int(version[1]), int(version[2])) >= (0, 7)


def _build_bwrap_options(interpreter: Interpreter, tier: Tier, grant: Grant) -> list[str]:
    identity = ["--uid", str(NOBODY), "--gid", str(NOBODY), "--clearenv", "--setenv", "PYTHONHASHSEED", tier.hash_seed]
    namespaces = [f"--unshare-{name}" for name in ("user", "ipc", "pid", "net", "uts", "cgroup-try")]
    guards = ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    tree = [part for path in interpreter.trees for part in ("--ro-bind", path, path)]
    tree += ["--ro-bind", interpreter.executable, interpreter.executable]
    tree += [part for target, path in interpreter.links for part in ("--symlink", target, path)]
    for folder in interpreter.hidden:
        tree += ["--tmpfs", folder, "--remount-ro", folder]
    devices = [part for name in ("null", "urandom") for part in ("--dev-bind", f"/dev/{name}", f"/dev/{name}")]
    programs = [part for path in grant.trees for part in ("--ro-bind", path, path)]
    if grant.folder:
        programs += ["--bind" if grant.writable else "--ro-bind", grant.folder, grant.folder]
    if grant.scratch_bytes:
        programs += ["--perms", "0700", "--size", str(grant.scratch_bytes), "--tmpfs", SCRATCH]
    end = ["--dir", "/tmp", *programs, "--chdir", "/", "--remount-ro", "/"]
    userns = ["--disable-userns"] if tier.disable_userns else []
    return [*namespaces, *userns, *guards, *identity, *tree, *devices, *end]


def list_tiers() -> list[Tier]:
    """Return the tiers to try, best first."""
    return [
        Tier("bwrap", namespaces=True, disable_userns=True),
        Tier("bwrap", namespaces=True),
        Tier("landlock", landlock_required=True),
    ]
