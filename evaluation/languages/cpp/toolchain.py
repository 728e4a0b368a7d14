"""g++ and GNU's linker, with the standard library precompiled.

g++ rather than the clang in `zig c++`: Debian's one package brings its own library and linker, and it starts faster.
The linker is GNU's: gold lists the folders of libraries, which the sandbox does not allow, and saves 0.05 s at most.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
from pathlib import Path

from evaluation.languages import finding
from evaluation.languages.base import Toolchain, ToolchainError
from evaluation.languages.cpp.driver import HEADER
from evaluation.sandbox.programs import FOLDER, Command, Tools

INSTALL = "apt-get install g++"
OLDEST = (10, 0)
_FLAGS = (
    *("-std=c++20", "-O0", "-w", "-pipe", "-fwrapv", "-D_GLIBCXX_ASSERTIONS"),
    *("-fmax-errors=5", "-fdiagnostics-color=never", "-ftemplate-depth=500"),
)
"""Overflow wraps and an index out of range aborts, so that no verdict depends on what happens to be in memory."""
_SECONDS = 120


@functools.cache
def find() -> Toolchain:
    """The toolchain of this machine; the first time it precompiles the header. Raises ToolchainError."""
    compiler, version = finding.newest((finding.on_path("g++"),), OLDEST, "-dumpfullversion")
    label = f"g++ {'.'.join(map(str, version))}"
    programs = [found for name in ("as", "ld") if (found := finding.on_path(name)) is not None]
    digest = hashlib.sha256("\0".join((HEADER, label, compiler, *_FLAGS)).encode()).hexdigest()[:16]
    try:
        folder = finding.prepared(f"cpp-{digest}", lambda folder, _: _precompile(compiler, folder))
        trees = (compiler, *programs, *_used_by(compiler), str(folder))
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(f"{label} cannot compile the standard library: {error}") from error
    path = os.pathsep.join(dict.fromkeys(str(Path(program).parent) for program in programs))
    compile_command = Command(
        (compiler, *_FLAGS, "-include", str(folder / "driver.hpp"), "answer.cpp", "-o", "program"),
        (("PATH", path), ("TMPDIR", FOLDER), ("LC_ALL", "C")),
    )
    return Toolchain(label, Tools(Command((f"{FOLDER}/program",)), trees, compile_command))


def _precompile(compiler: str, folder: Path) -> None:
    (folder / "driver.hpp").write_text(HEADER, "utf-8")
    _ask(compiler, *_FLAGS, "-x", "c++-header", "driver.hpp", "-o", "driver.hpp.gch", folder=folder)


def _used_by(compiler: str) -> list[str]:
    """The folders with the compiler's own programs and the headers that it searches."""
    searched = _ask(compiler, "-xc++", "-E", "-v", os.devnull).partition("#include <...>")[2].partition("End of")[0]
    headers = [line.strip() for line in searched.splitlines()[1:]]
    own = Path(_ask(compiler, "-print-prog-name=cc1plus").strip()).parent
    return sorted({os.path.realpath(path) for path in (*headers, own) if Path(path).is_dir()})


def _ask(compiler: str, *arguments: str, folder: Path | None = None) -> str:
    """What it prints."""
    done = subprocess.run(
        [compiler, *arguments], cwd=folder, env={"PATH": os.defpath, "LC_ALL": "C"}, capture_output=True, text=True,
        timeout=_SECONDS, check=True,
    )  # fmt: skip
    return done.stdout + done.stderr
