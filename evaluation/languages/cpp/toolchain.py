"""g++ and GNU's linker, with the standard library precompiled.

g++ rather than the clang in `zig c++`: Debian's one package brings its own library and linker, and it starts faster.
The linker is GNU's: gold lists the folders of libraries, which the sandbox does not allow, and saves 0.05 s at most.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

from evaluation.languages import toolchain_search
from evaluation.languages.base import Toolchain
from evaluation.languages.cpp.language import HEADER
from evaluation.sandbox.programs import COMPILE_LIMITS, FOLDER, Command, Tools

INSTALL = "apt-get install g++"
_COMPILE_LIMITS = replace(COMPILE_LIMITS, cpu_s=10, wall_s=20.0)
OLDEST = (10, 0)
_FLAGS = (
    *("-std=c++20", "-O0", "-w", "-pipe", "-fwrapv", "-D_GLIBCXX_ASSERTIONS"),
    *("-fmax-errors=5", "-fdiagnostics-color=never", "-ftemplate-depth=500"),
)
"""Overflow wraps and an index out of range aborts, so that no verdict depends on what happens to be in memory."""
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}
_READ = "headers"
"""The file that lists what was read for the precompiled header."""
_INCLUDE = "/include"


@functools.cache
def find() -> Toolchain:
    """The toolchain of this machine; the first time it precompiles the header. Raises ToolchainError."""
    compiler, version = toolchain_search.find_executable((shutil.which("g++"),), OLDEST, "-dumpfullversion")
    label = f"g++ {'.'.join(map(str, version))}"
    programs = [found for name in ("as", "ld") if (found := shutil.which(name)) is not None]
    digest = hashlib.sha256("\0".join((HEADER, label, compiler, *_FLAGS)).encode()).hexdigest()[:12]
    folder = toolchain_search.prepare_folder(f"cpp-{digest}", lambda folder: _precompile(compiler, folder))
    trees = (compiler, *programs, *_list_used_folders(compiler, folder), str(folder))
    path = os.pathsep.join(dict.fromkeys(str(Path(program).parent) for program in programs))
    compile_command = Command(
        (compiler, *_FLAGS, "-include", str(folder / "driver.hpp"), "answer.cpp", "-o", "program"),
        (("PATH", path), ("TMPDIR", FOLDER), ("LC_ALL", "C")),
    )
    return Toolchain(label, Tools(Command((f"{FOLDER}/program",)), trees, compile_command, _COMPILE_LIMITS))


def _precompile(compiler: str, folder: Path) -> None:
    (folder / "driver.hpp").write_text(HEADER, "utf-8")
    files = ("-x", "c++-header", "driver.hpp", "-o", "driver.hpp.gch", "-MD", "-MF", _READ)
    toolchain_search.run_tool((compiler, *_FLAGS, *files), _ENVIRONMENT, folder)


def _list_used_folders(compiler: str, folder: Path) -> list[str]:
    """The folders with the compiler's own programs and the headers that the standard library consists of."""
    headers = (folder / _READ).read_text().split()
    found = {path[: path.index(_INCLUDE) + len(_INCLUDE)] for path in headers if _INCLUDE in path}
    own = toolchain_search.run_tool((compiler, "-print-prog-name=cc1plus"), _ENVIRONMENT).strip()
    return sorted({os.path.realpath(path) for path in (*found, str(Path(own).parent))})
