"""Java: a JDK on this machine. Its virtual machines start from archives of loaded classes, which are made once."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from evaluation.languages import toolchain_search
from evaluation.languages.base import Toolchain, ToolchainError
from evaluation.sandbox.programs import COMPILE_LIMITS, FOLDER, Command, Tools

INSTALL = "apt-get install default-jdk-headless"
OLDEST = (17,)
_BUILD, _DRIVER = ("Build",), ("Driver", "Reader", "Type", "Sample")
_SOURCES = {name: (resources.files(__package__) / f"{name}.java").read_text("utf-8") for name in (*_BUILD, *_DRIVER)}
_SAMPLE = {"signature": "sample\nlist[int]\nstr\nlist[int]\n", "program.java": _SOURCES["Sample"]}
_SAMPLE_CASE = '{"id": 0, "args": [["3", "1", "3"], "to be or not"]}\n'
_FLAGS = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:CICompilerCount=1", "-Xlog:disable"),
    *("-XX:ReservedCodeCacheSize=32m", "-XX:CompressedClassSpaceSize=48m", "-XX:+ExitOnOutOfMemoryError"),
    *("-Dos.name=Linux", "-Dos.version=0"),  # uname is denied, and the JVM would read what it left in memory
)
_COMPILE, _RUN = (*_FLAGS, "-Xmx512m", "-Xss8m"), (*_FLAGS, "-Xmx320m", "-Xss8m")
_COMPILE_LIMITS = replace(COMPILE_LIMITS, cpu_s=10, wall_s=20.0, memory_bytes=2**30)
"""A program takes 0.4 s and 80 MiB."""
_RESERVES_BYTES = 1024 * 2**20
_THREADS = 32


@functools.cache
def find() -> Toolchain:
    """The toolchain of this machine; the first time it makes the archives. Raises ToolchainError."""
    own = Path(os.environ.get("JAVA_HOME") or "/nonexistent") / "bin" / "javac"
    compiler, version = toolchain_search.find_executable((str(own), shutil.which("javac")), OLDEST, "-version")
    home = Path(compiler).parents[1]
    label = ".".join(map(str, version))
    content = repr((sorted(_SOURCES.items()), _COMPILE, _RUN, str(home), label)).encode()
    key = f"java-{label}-{hashlib.sha256(content).hexdigest()[:12]}"
    folder = toolchain_search.prepare_folder(key, lambda folder: _prepare(home, folder))
    # Where /proc is missing, a program does not find its libraries by its own place.
    libraries = (("LD_LIBRARY_PATH", str(home / "lib")),)
    return Toolchain(
        f"java {label}",
        Tools(
            run=Command((*_build_command(home, folder, "Driver", _RUN, f"{FOLDER}/classes"), "3", "4"), libraries),
            compile=Command(_build_command(home, folder, "Build", _COMPILE), libraries),
            compile_limits=_COMPILE_LIMITS,
            trees=tuple(dict.fromkeys((str(home), *_list_configuration(home), str(folder)))),
            reserves_bytes=_RESERVES_BYTES,
            run_threads=_THREADS,
        ),
    )


def _list_configuration(home: Path) -> list[str]:
    """Where the JDK's settings are: Debian keeps them in /etc and links to them."""
    conf = home / "conf"
    found = {os.path.realpath(path) for path in (conf, *conf.iterdir(), *(conf / "security").iterdir())}
    return sorted(path for path in found if not Path(path).is_relative_to(home))


def _build_command(home: Path, folder: Path, name: str, flags: tuple[str, ...], *classes: str) -> tuple[str, ...]:
    """The command that runs one of our classes from its archive."""
    archive = folder / f"{name}.jsa"
    path = ":".join((str(folder / f"{name}.jar"), *classes))
    return (str(home / "bin" / "java"), *flags, f"-XX:SharedArchiveFile={archive}", "-cp", path, f"bassline.{name}")


def _prepare(home: Path, folder: Path) -> None:
    """Compile our classes, and run each once on the sample to record which classes it loads."""
    tools = home / "bin"
    for name, parts in (("Build", _BUILD), ("Driver", _DRIVER)):
        sources = folder / name
        sources.mkdir()
        for part in parts:
            (sources / f"{part}.java").write_text(_SOURCES[part], "utf-8")
        javac = [str(tools / "javac"), "-nowarn", "-proc:none", "-XDstringConcat=inline", "-encoding", "utf-8"]
        toolchain_search.run_tool([*javac, "-d", "classes", *(f"{part}.java" for part in parts)], folder=sources)
        toolchain_search.run_tool(
            [str(tools / "jar"), "cf", str(folder / f"{name}.jar"), "-C", "classes", "."], folder=sources
        )
        shutil.rmtree(sources)
    with tempfile.TemporaryDirectory() as sample:
        for name, text in _SAMPLE.items():
            (Path(sample) / name).write_text(text, "utf-8")
        build = _build_recording_command(_build_command(home, folder, "Build", _COMPILE))
        toolchain_search.run_tool(build, folder=Path(sample))
        run = _build_recording_command(_build_command(home, folder, "Driver", _RUN))
        answer = toolchain_search.run_tool([*run, "0", "1"], folder=Path(sample), given=_SAMPLE_CASE)
    if '"result"' not in answer or not all((folder / f"{name}.jsa").exists() for name in ("Build", "Driver")):
        raise ToolchainError(f"{home} makes no archives of loaded classes")


def _build_recording_command(command: Sequence[str]) -> list[str]:
    return [word.replace("SharedArchiveFile", "ArchiveClassesAtExit") for word in command]
