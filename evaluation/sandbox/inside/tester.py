"""The tester: runs a project's own tests with pytest, on a module that holds an untrusted answer.

Test and answer share this process, so the answer could forge the verdict (trust: in-guest). Forging is made hard: the
outcome of each test leaves through a pipe, in frames that carry a number and a secret that the process got after it
was confined. Tests that must fail run among the others, under names like theirs: if one of them passes, something has
patched the runner. What an exit code or a printed text says counts for nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import json
import linecache
import os
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evaluation.sandbox.inside import codec, variants

JOB_IN, REPORT_OUT = 3, 4
_OPTIONS = (
    "-q", "--capture=sys", "--assert=plain", "--tb=short", "-p", "no:cacheprovider", "-p", "no:randomly",
    "-p", "no:xdist", "-o", "addopts=",
    "-W", "ignore::pytest.PytestConfigWarning",  # settings of plugins that are not there, with filterwarnings = error
)  # fmt: skip
_FLAGS = (
    "--doctest-modules", "--doctest-continue-on-failure", "--doctest-ignore-import-errors", "--pyargs", "--noconftest",
)  # fmt: skip
_PLUGIN_OF_OPTION = {"--asyncio-mode": "pytest_asyncio", "--ds": "pytest_django", "--dc": "pytest_django"}
_TEXT_LIMIT = 2000
_codes: dict[str, types.CodeType] = {}


def refuse(reason: str) -> None:
    """Report, instead of the hello, that this process could not be confined."""
    codec.write(REPORT_OUT, codec.dump({"sandbox_error": reason}))


def compile_files(*folders: str) -> None:
    """In the zygote: compile the files of these folders, so that no fork has to. Compiling runs nothing of them."""
    for path in (path for folder in folders for path in sorted(Path(folder).rglob("*.py"))):
        with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError):
            _codes[str(path)] = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)


def serve(_job: dict[str, Any]) -> None:
    """Send the hello, read the job, run its tests, report each and the end."""
    codec.write(REPORT_OUT, codec.dump({"hello": True}))
    with open(JOB_IN, "rb") as file:
        job = json.loads(file.read())
    report = _build_reporter(job.pop("secret"))
    root = job["project"]
    path = str(Path(root) / job["file"])
    source = job.pop("source")
    try:
        code = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        report({"syntax": f"{type(error).__name__}: {error}"[:_TEXT_LIMIT]})
        return
    # The file holds the original, whose lines a traceback would show in place of the answer's.
    linecache.cache[path] = len(source), None, source.splitlines(keepends=True), path
    sys.path[:0] = [str(Path(root) / folder) for folder in job["paths"]]
    sys.meta_path.insert(0, _ReadyFinder({**_codes, path: code}))
    sys.argv[:] = ["pytest"]
    os.chdir(root)
    os.environ.update(job["environment"])
    # So that a job that asks for the folder probes it with a file, which `Scratch.has_been_used` sees.
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None
    for name in [name for name in sys.modules if name.startswith("evaluation")]:
        del sys.modules[name]
    _run(job, code, report)


def _run(job: dict[str, Any], code: types.CodeType, report: Callable[[dict[str, Any]], None]) -> None:
    try:
        pytest = importlib.import_module("pytest")
    except Exception as error:
        report({"no_runner": f"{type(error).__name__}: {error}"[:_TEXT_LIMIT]})
        return
    random = importlib.import_module("random")
    random.seed(0)
    places = dict.fromkeys(test.partition("[")[0] for test in job["tests"])
    options = [*_OPTIONS, f"--rootdir={job['project']}", *_select_usable_options(job["options"])]
    plugin: Any
    if job["variants"]:
        plugin = _VariantPlugin(pytest, report, job, code)
    else:
        plugin = _Plugin(pytest, report, job["tests"], job["must_fail"], job["stop_early"])
    printed = _StreamTail(sys.stderr)
    try:
        with contextlib.redirect_stderr(printed):  # pytest says there what keeps it from running tests
            exit_code = int(pytest.main([*options, *places], plugins=[plugin]))
    except BaseException as error:
        report({"broken": f"{type(error).__name__}: {error}"[:_TEXT_LIMIT]})
        return
    report({"end": True, "code": exit_code, "printed": printed.text})


def _select_usable_options(options: Sequence[str]) -> list[str]:
    """The options for pytest itself and for plugins that are there."""
    usable: list[str] = []
    words = iter(options)
    for word in words:
        value = [next(words, "")] if word.startswith("-") and word not in _FLAGS else []
        plugin = _PLUGIN_OF_OPTION.get(word, value[0] if word == "-p" else "")
        if not plugin or plugin.startswith("no:") or _is_there(plugin):
            usable += [word, *value]
    return usable


def _is_there(plugin: str) -> bool:
    try:
        return any(importlib.util.find_spec(name) is not None for name in (plugin, f"_pytest.{plugin}"))
    except (ImportError, ValueError):
        return False


class _StreamTail:
    """A stream that passes on what is written and keeps the end of it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.text = ""

    def write(self, text: str) -> int:
        self.text = (self.text + text)[-_TEXT_LIMIT:]
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _build_reporter(secret: str) -> Callable[[dict[str, Any]], None]:
    """A function that writes a frame with the next number and the job's secret."""
    write, dump, process = codec.write, codec.dump, os.getpid()
    number = 0

    def report(content: dict[str, Any]) -> None:
        nonlocal number
        if os.getpid() == process:
            number += 1
            write(REPORT_OUT, dump({"number": number, "secret": secret, **content}))

    return report


class _ReadyFinder:
    """Finds modules whose code is ready, such as the project's; the answer's module has only the answer's."""

    def __init__(self, codes: dict[str, types.CodeType]) -> None:
        self._codes = codes

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        origin = spec.origin if spec is not None else None
        code = None if origin is None else self._codes.get(origin)
        if (
            spec is not None
            and origin is not None
            and code is not None
            and type(spec.loader) is importlib.machinery.SourceFileLoader
        ):
            spec.loader = _ReadyLoader(name, origin, code)
        return spec


class _ReadyLoader(importlib.machinery.SourceFileLoader):
    """Gives a module its ready code."""

    def __init__(self, name: str, path: str, code: types.CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, _name: str) -> types.CodeType:
        return self._code


class _Plugin:
    """Keeps exactly the wanted tests, adds those that must fail, and reports what happens to each."""

    def __init__(
        self,
        pytest: Any,
        report: Callable[[dict[str, Any]], None],
        tests: Sequence[str],
        must_fail: Sequence[str],
        stop_early: bool,
    ) -> None:
        self._report = report
        self._wanted = wanted = set(tests)
        self._stop_early = stop_early
        self._session: Any = None

        def pytest_collection_modifyitems(session: Any, items: list[Any]) -> None:
            self._session = session
            found = [item for item in items if item.nodeid in wanted]
            report({"collected": [item.nodeid for item in found]})
            added = [each for name in must_fail for each in [_build_failing_test(found, name)] if each is not None]
            report({"must_fail": [item.nodeid for item in added]})
            items[:] = [*added[:1], *found, *added[1:]]

        self.pytest_collection_modifyitems = pytest.hookimpl(trylast=True)(pytest_collection_modifyitems)

    def pytest_configure(self, config: Any) -> None:
        fix_hypothesis()

    def pytest_internalerror(self, excrepr: Any) -> None:
        self._report({"internal": str(excrepr)[-_TEXT_LIMIT:]})

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        self._report({"internal": excinfo.exconly()[-_TEXT_LIMIT:]})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if nodeid in self._wanted:
            self._report({"started": nodeid})

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._report({"not_collected": report.nodeid, "text": _format_text(report)})

    def pytest_runtest_logreport(self, report: Any) -> None:
        content = {"test": report.nodeid, "when": report.when, "outcome": report.outcome}
        if type(report).__name__.lower().startswith("subtest"):
            content["part"] = True
        if hasattr(report, "wasxfail"):
            content["outcome"] = "xfailed"
        if report.failed:
            content["text"] = _format_text(report)
            if self._stop_early and report.nodeid in self._wanted:
                self._session.shouldstop = "a test failed"
        self._report(content)


class _VariantPlugin:
    """Runs the wanted tests on variants of the function, and reports what becomes of these."""

    def __init__(
        self, pytest: Any, report: Callable[[dict[str, Any]], None], job: dict[str, Any], code: types.CodeType
    ) -> None:
        self._passed = True
        self._runs = variants.VariantRuns(code, job, self._run_item, report)
        wanted = set(job["tests"])

        def pytest_collection_modifyitems(items: list[Any]) -> None:
            items[:] = [item for item in items if item.nodeid in wanted]

        self.pytest_collection_modifyitems = pytest.hookimpl(trylast=True)(pytest_collection_modifyitems)

    def pytest_configure(self, config: Any) -> None:
        fix_hypothesis()

    def pytest_runtestloop(self, session: Any) -> bool:
        self._runs.run(session.items)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._passed = self._passed and report.passed and not hasattr(report, "wasxfail")

    def _run_item(self, item: Any, following: Any) -> bool:
        self._passed = True
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return self._passed


def fix_hypothesis() -> None:
    """Let hypothesis draw the same few inputs each time, without deadlines, which tests could miss under load. A
    profile that the project loaded in its conftest gives way; what a test sets for itself stays."""
    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is None:
        return
    checks = list(hypothesis.HealthCheck)
    options = {"derandomize": True, "deadline": None, "max_examples": 20, "database": None}
    hypothesis.settings.register_profile("bassline", suppress_health_check=checks, **options)
    hypothesis.settings.load_profile("bassline")


def _build_failing_test(items: Sequence[Any], name: str) -> Any:
    """A test beside the first one, of the same kind, that fails; None where there is no test."""
    if not items:
        return None
    item = items[0]

    def check(*_args: Any) -> None:
        raise AssertionError(name)

    def check_alone() -> None:  # pytest takes parameters for fixtures
        check()

    kind = type(item)
    parent = item.parent
    if hasattr(item, "dtest"):
        doctest = importlib.import_module("doctest")
        example = doctest.Example("raise AssertionError\n", "")
        test = doctest.DocTest([example], {}, name, None, None, None)
        return kind.from_parent(parent, name=name, runner=item.runner, dtest=test)
    owner = getattr(parent, "obj", None)
    if isinstance(owner, type):
        setattr(owner, name, check)
        return kind.from_parent(parent, name=name)
    return kind.from_parent(parent, name=name, callobj=check_alone)


def _format_text(report: Any) -> str:
    try:
        return str(report.longreprtext)[-_TEXT_LIMIT:]
    except Exception:
        return ""
