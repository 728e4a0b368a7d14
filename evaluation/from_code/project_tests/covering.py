"""Which of the project's functions each test called, and which installed files the tests needed, from the recorder.

Like the recorded calls, its files are read as untrusted: the tests may write there too. The modules of packages that
are installed in editable mode are not in the folder of packages, but in a project's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from evaluation.from_code.calls.recorded import open_regular_file

_MAX_LINE_BYTES = 8 * 2**20
_STANDARD = re.compile(r"/lib(64)?/python[0-9.]+/(?!(site|dist)-packages/)")

_FLAGS = frozenset(
    ("--doctest-modules", "--doctest-continue-on-failure", "--doctest-ignore-import-errors", "--pyargs", "--noconftest")
)
_WITH_VALUE = frozenset({
    "--import-mode", "--doctest-glob", "-p", "-o", "--override-ini", "-c", "--config-file", "--confcutdir",
    "--asyncio-mode", "--ds", "--dc",
})  # fmt: skip
_SETTINGS = (
    "asyncio_default_fixture_loop_scope", "asyncio_mode", "consider_namespace_packages", "DJANGO_SETTINGS_MODULE",
    "doctest_optionflags", "python_classes", "python_files", "python_functions", "usefixtures", "xfail_strict",
)  # fmt: skip
"""Settings taken from a configuration file outside the project's folder, as in a monorepo."""


@dataclass
class CallsByTest:
    """`tests`: the number of calls of each function by pytest's id of the test, "" outside of tests. `files` are the
    files of all modules that the tests imported, without the standard library's, `path` the folders of installed
    packages, `ended` the tests that took too long, `options` pytest's for the sandbox, `python` the version of
    the interpreter."""

    tests: dict[str, dict[str, int]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    python: list[int] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)

    def list_called_functions(self) -> set[str]:
        """The keys of the functions that the tests called."""
        return {key for calls in self.tests.values() for key in calls}

    def list_tests(self, key: str) -> list[str]:
        """The tests that call a function, the most specific first: those that call the fewest functions, then those
        that make the fewest calls. The order depends on no clock."""
        found = [test for test, calls in self.tests.items() if test and key in calls]
        return sorted(found, key=lambda test: (len(self.tests[test]), sum(self.tests[test].values()), test))


def read_calls_by_test(folder: Path, keys: Collection[str]) -> CallsByTest:
    """Join the files of all processes that the recorder noted."""
    covering = CallsByTest()
    files: set[str] = set()
    options: set[tuple[str, ...]] = set()
    for path in sorted(folder.iterdir()):
        with open_regular_file(path) as file:
            while file is not None and (line := file.readline(_MAX_LINE_BYTES)):
                row = _parse_row(line)
                if row.get("modules"):
                    files |= {name for name in _keep_texts(row["modules"]) if not _STANDARD.search(name)}
                    packages = {path for path in _keep_texts(row.get("path")) if "-packages" in path}
                    covering.path = sorted(packages.union(covering.path))
                    version = row.get("python")
                    if isinstance(version, list):
                        covering.python = covering.python or [n for n in version if type(n) is int]
                elif isinstance(row.get("pytest"), list):
                    options |= set(select_options(_keep_texts(row["pytest"]), row.get("settings")))
                elif isinstance(row.get("ended"), str):
                    covering.ended = sorted({*covering.ended, row["ended"]})
                elif isinstance(row.get("test"), str) and isinstance(row.get("calls"), dict):
                    calls = covering.tests.setdefault(row["test"], {})
                    for key, count in row["calls"].items():
                        if key in keys and type(count) is int:
                            calls[key] = calls.get(key, 0) + count
    covering.files = sorted(files)
    covering.options = [word for option in sorted(options) for word in option]
    covering.path = sorted({*covering.path, *find_editable_roots(covering.path, covering.files)})
    return covering


def _parse_row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _keep_texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def select_options(arguments: Sequence[str], settings: Any) -> Iterator[tuple[str, ...]]:
    """The options among pytest's arguments that matter in the sandbox too, and settings of a file elsewhere as options.

    Others are left out. Reports, colours and processes mean nothing there, plugins such as pytest-cov are not taken
    along, `--strict-markers` would refuse their markers, and `-k` and `-m` have done their work.
    """
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _WITH_VALUE and word[:2] in ("-p", "-o", "-c"):  # joined: `-oNAME=VALUE`
            name, equals, value = word[:2], "=", word[2:]
        if word in _FLAGS:
            yield (word,)
        elif name in _WITH_VALUE:
            value = value if equals else next(words, "")
            if value and not value.startswith("/") and not value.startswith("addopts="):
                yield (name, value)
    for name in _SETTINGS if isinstance(settings, dict) else ():
        if name in settings:
            found = settings[name]
            yield ("-o", f"{name}={' '.join(map(str, found)) if isinstance(found, list) else found}")


def find_editable_project(info: Path) -> Path | None:
    """The project's folder of a distribution in editable mode, by its `.dist-info`; None for another one."""
    try:
        found = json.loads((info / "direct_url.json").read_text("utf-8"))
        url = urlsplit(found["url"])
        editable = found["dir_info"]["editable"] is True and url.scheme == "file"
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return Path(unquote(url.path)).resolve() if editable else None


def find_used_packages(folder: Path, files: Iterable[str]) -> set[Path]:
    """The top-level packages and modules of a project that hold one of these files."""
    found = set()
    for file in map(Path, files):
        if file.is_relative_to(folder):
            while (file.parent / "__init__.py").is_file():
                file = file.parent  # noqa: PLW2901  (climbs to the package)
            found.add(file)
    return found


def find_editable_roots(places: Sequence[str], files: Sequence[str]) -> set[str]:
    """The folders from which packages in editable mode are imported; `places` are the folders of packages."""
    projects = (find_editable_project(info) for place in places for info in Path(place).glob("*.dist-info"))
    folders = set(filter(None, projects))
    return {str(package.parent) for folder in folders for package in find_used_packages(folder, files)}


def iterate_package_files(package: Path) -> Iterator[tuple[str, Path]]:
    """(path on sys.path, file) of a package or module."""
    every = sorted(package.rglob("*")) if package.is_dir() else [package]
    for file in every:
        if file.is_file() and not file.is_symlink() and "__pycache__" not in file.parts:
            yield file.relative_to(package.parent).as_posix(), file
