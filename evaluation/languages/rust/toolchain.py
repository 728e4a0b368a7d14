"""rustc of rustup or of the system, and the crate of the driver, compiled before."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

from evaluation.languages import toolchain_search
from evaluation.languages.base import Toolchain, ToolchainError
from evaluation.languages.rust.language import CRATE
from evaluation.sandbox.programs import COMPILE_LIMITS, FOLDER, Command, Tools

INSTALL = "apt-get install rustc-web"
_COMPILE_LIMITS = replace(COMPILE_LIMITS, cpu_s=10, wall_s=20.0)
OLDEST = (1, 85)
"""Debian 12's package `rustc` is 1.63, which does not run without /proc."""
_FLAGS = (
    *("--edition=2021", "--cap-lints=allow", "-Awarnings", "--error-format=short"),
    *("-Copt-level=0", "-Cdebuginfo=0", "-Ccodegen-units=1"),
)
"""Without optimization overflow is checked: it panics, as an index out of range does."""


@functools.cache
def find() -> Toolchain:
    """The toolchain of this machine; the first time it compiles the driver's crate. Raises ToolchainError."""
    rustc_on_path, linker = shutil.which("rustc"), shutil.which("cc")
    if rustc_on_path is None:
        raise ToolchainError("there is no rustc")
    if linker is None:
        raise ToolchainError("rustc needs a C compiler to link: there is no cc")
    sysroot = _make_reachable(Path(toolchain_search.run_tool((rustc_on_path, "--print=sysroot")).strip()))
    rustc, version = toolchain_search.find_executable((str(sysroot / "bin" / "rustc"),), OLDEST, "--version")
    label = f"rustc {'.'.join(map(str, version))}"
    flags = (*_FLAGS, f"--sysroot={sysroot}", f"-Clinker={os.path.realpath(linker)}")
    digest = hashlib.sha256("\0".join((CRATE, label, *flags)).encode()).hexdigest()[:12]
    crate = toolchain_search.prepare_folder(
        f"rust-driver-{digest}", lambda folder: _compile_driver(rustc, flags, folder)
    )
    programs = [found for name in ("as", "ld") if (found := shutil.which(name)) is not None]
    libraries = () if sysroot == Path("/usr") else (str(sysroot / "lib"),)  # the sandbox has the system's own
    trees = (rustc, *libraries, os.path.realpath(linker), *programs, str(crate))
    path = os.pathsep.join(dict.fromkeys(str(Path(program).parent) for program in programs))
    library = f"--extern=bassline_driver={crate}/libbassline_driver.rlib"
    compile_command = Command(
        (rustc, *flags, library, "main.rs", "-o", "program"),
        # It finds its own libraries by /proc, which the sandbox does not have.
        (("PATH", path), ("LD_LIBRARY_PATH", str(sysroot / "lib")), ("TMPDIR", FOLDER), ("LC_ALL", "C")),
    )
    return Toolchain(label, Tools(Command((f"{FOLDER}/program",)), trees, compile_command, _COMPILE_LIMITS))


def _make_reachable(sysroot: Path) -> Path:
    """The toolchain, or one made of hard links or copies where the sandbox's user cannot enter its folder: rustup's is
    in a home folder."""
    if toolchain_search.is_reachable(str(sysroot / "bin" / "rustc")):
        return sysroot
    facts = (sysroot / "bin" / "rustc").stat()
    name = f"rust-{sysroot.name}-{facts.st_size:x}-{facts.st_mtime_ns:x}"
    return toolchain_search.prepare_folder(name, lambda folder: _link(sysroot, folder))


def _link(sysroot: Path, folder: Path) -> None:
    (folder / "bin").mkdir()
    _link_file(str(sysroot / "bin" / "rustc"), str(folder / "bin" / "rustc"))
    shutil.copytree(sysroot / "lib", folder / "lib", copy_function=_link_file)


def _link_file(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def _compile_driver(rustc: str, flags: tuple[str, ...], folder: Path) -> None:
    source = folder / "driver.rs"
    source.write_text(CRATE, "utf-8")
    names = ("--crate-type=rlib", "--crate-name=bassline_driver", f"--out-dir={folder}")
    toolchain_search.run_tool((rustc, *flags, *names, str(source)))
