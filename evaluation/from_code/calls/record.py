"""Runs the project's own tests in its own interpreter and collects the calls of its functions."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation.from_code.calls.commands import run_command
from evaluation.from_code.calls.confined import Confinement, open_slot, run_confined
from evaluation.from_code.calls.recorded import RecordedCalls, read_digests, read_recorded_calls
from evaluation.from_code.project_tests.covering import CallsByTest, read_calls_by_test
from evaluation.from_code.reasons import ProjectError
from evaluation.from_code.recording import calls as recording_calls
from evaluation.from_code.source.find import ProjectFunction
from evaluation.from_code.source.project import Project

HASH_SEED = "1"
"""Of the recording; the sandbox has another, so that results that depend on the order of a set do not repeat there."""
_SOURCE = Path(recording_calls.__file__).parent
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SHOWN_LINES = 5
N_RUNS = 2
"""Runs of the commands: only calls of the first run that the second one repeats count."""
QUIET_S = 30.0
"""Seconds after which a test that waits, and does nothing, is ended."""
_DOCTESTS = "bassline_doctests"
_NEUTRAL_MACHINE = """import os, posix
facts = os.uname_result(("Linux", "localhost", "", "", ""))
posix.uname = os.uname = lambda: facts
"""
"""Replaces the uname call, which the sandbox denies, as in its zygotes."""
CommandRunner = Callable[[Sequence[str], Path, dict[str, str], float, Callable[[float], None]], tuple[int | None, str]]
"""Runs a command in a folder with an environment, for some seconds, and calls a function each second."""


@dataclass
class Recording(RecordedCalls):
    """What was recorded while the tests ran, and how the tests ended."""

    # of the first command that failed, else of the last one; None if it was ended at the time limit
    exit_code: int | None = 0
    output: str = ""  # of the same command
    seconds: float = 0.0
    covering: CallsByTest = field(default_factory=CallsByTest)

    @property
    def last_lines(self) -> list[str]:
        """The last lines that the tests printed, without empty ones."""
        lines = [line.strip()[:200] for line in _COLOURS.sub("", self.output).splitlines() if line.strip()]
        return lines[-_SHOWN_LINES:]

    @property
    def failure(self) -> str:
        """How the tests ended, "" where they passed."""
        if self.exit_code is None:
            return "were stopped at the time limit"
        if self.exit_code < 0:
            return f"were killed by {_name_signal(-self.exit_code)}"
        return f"ended with exit code {self.exit_code}" if self.exit_code else ""


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def build_doctest_command(python: str, project: Project) -> list[str]:
    """The command that runs the doctests of all modules that have examples."""
    names = [name for name, module in sorted(project.modules.items()) if ">>>" in module.source]
    if not names:
        raise ProjectError(f"{project.name} has no doctests: give the command of its tests with --tests")
    return [python, "-m", _DOCTESTS, *names]


def record_calls(  # noqa: PLR0913 (each says how the tests run)
    project: Project,
    functions: Sequence[ProjectFunction],
    commands: Sequence[Sequence[str]],
    folder: Path,
    limit_s: float,
    on_second: Callable[[float], None] = lambda _seconds: None,
    python: str = "",
    quiet_s: float = QUIET_S,
    confinement: Confinement | None = None,
) -> Recording:
    """Run the commands twice, one after the other, each for at most `limit_s` seconds, and return the recording.

    Only calls of both runs are in it. `folder` is for the recorder's files; `on_second` is called with the seconds that
    passed. The programs beside the interpreter `python` come first on PATH. A test of pytest that waits for `quiet_s`
    seconds is ended. With a `confinement` the commands run in the sandbox. Raises ProjectError where a command cannot
    be started. On KeyboardInterrupt the tests are ended first.
    """
    shutil.rmtree(folder, ignore_errors=True)
    keys = {function.key for function in functions if not function.reason}
    started = time.monotonic()

    def report_elapsed(_of_command: float) -> None:
        on_second(time.monotonic() - started)

    root = os.path.realpath(project.root)
    plan = {"project": root, "functions": _list_functions(project, functions), "quiet_s": quiet_s}
    with contextlib.ExitStack() as stack:
        runner: CommandRunner = run_command
        inside: Path | None = None
        if confinement is not None:
            slot = stack.enter_context(open_slot(confinement, project.root))
            runner, folder, inside = functools.partial(run_confined, slot), slot.folder, confinement.packages
        first, second = (_RecordingRun(folder / name, project, plan, runner, inside) for name in ("first", "second"))
        first.run(commands, python, limit_s, report_elapsed)
        try:
            repeated = folder / "repeated.json"
            repeated.write_text(json.dumps(read_digests(first.calls, keys)), "utf-8")
            recording = second.run(commands, python, limit_s, report_elapsed, repeated)
            recording.seconds = time.monotonic() - started
            recorded = read_recorded_calls(second.calls, keys, _list_local_paths(project))
            recording.covering = read_calls_by_test(second.seen, {function.key for function in functions})
        except OSError as error:
            raise ProjectError(f"the tests removed what was recorded: {error.strerror}") from None
    recording.calls, recording.refused, recording.unread = recorded.calls, recorded.refused, recorded.unread
    if inside is not None:  # the tests may have written other folders of this machine there
        recording.covering.path = [path for path in recording.covering.path if path == str(inside)]
    return recording


class _RecordingRun:
    """One run of the commands, and the folders for what is noted meanwhile; `packages` are those in the sandbox."""

    def __init__(
        self, folder: Path, project: Project, plan: Mapping[str, Any], runner: CommandRunner, packages: Path | None
    ) -> None:
        self._folder, self._project, self._runner, self._packages = folder, project, runner, packages
        self.calls, self.seen, self._temporary = (folder / name for name in ("calls", "seen", "temporary"))
        for written in (self.calls, self.seen, self._temporary):
            written.mkdir(parents=True)
            if packages is not None:
                written.chmod(0o777)  # the sandbox has another user, and nobody else enters the folder above
        self._plan = {**plan, "folder": str(self.calls), "seen": str(self.seen)}

    def run(
        self,
        commands: Sequence[Sequence[str]],
        python: str,
        limit_s: float,
        on_second: Callable[[float], None],
        repeated: Path | None = None,
    ) -> Recording:
        """How the commands ended. Calls in the file `repeated` are written down; without a file, digests alone."""
        plan = self._folder / "plan.json"
        known = None if repeated is None else str(repeated)
        plan.write_text(json.dumps({**self._plan, "repeated": known}), "utf-8")
        hooks = _write_hooks(self._folder)
        if self._packages is not None:
            (hooks / "bassline_recording" / "__init__.py").write_text(_NEUTRAL_MACHINE, "utf-8")
        environment = _build_environment(self._project, hooks, plan, python, self._packages, self._temporary)
        recording = Recording()
        for command in commands:
            exit_code, output = self._runner(command, self._project.root, environment, limit_s, on_second)
            if recording.exit_code == 0:
                recording.exit_code, recording.output = exit_code, output
        return recording


def _list_local_paths(project: Project) -> list[str]:
    """Folders of this machine as they would stand in a recorded text."""
    folders = {str(project.root), os.path.realpath(project.root)}
    folders |= {f"{folder}/" for folder in (tempfile.gettempdir(), str(Path.home())) if folder != "/"}
    return [json.dumps(folder)[1:-1] for folder in sorted(folders)]


def _list_functions(project: Project, functions: Sequence[ProjectFunction]) -> dict[str, list[tuple[int, str, str]]]:
    """(line, key, what is recorded) of every function by the path of its file: its inputs, its calls or nothing."""
    every: dict[str, list[tuple[int, str, str]]] = {}
    for function in functions:
        path = os.path.realpath(project.root / function.module.path)
        how = "" if function.reason else "inputs" if function.is_generator else "calls"
        every.setdefault(path, []).append((function.node.lineno, function.key, how))
    return every


def _write_hooks(folder: Path) -> Path:
    """A folder for PYTHONPATH: the module that Python imports when it starts, and the package that it needs."""
    hooks = folder / "hooks"
    package = hooks / "bassline_recording"
    package.mkdir(parents=True)
    for path in _SOURCE.glob("*.py"):
        shutil.copyfile(path, package / path.name)  # without its mode: Bassline may be installed read-only
    shutil.copyfile(_SOURCE / "sitecustomize.py", hooks / "sitecustomize.py")
    run = folder / "run"
    run.mkdir()
    shutil.copyfile(_SOURCE / "doctests.py", run / f"{_DOCTESTS}.py")
    return hooks


def _build_environment(
    project: Project, hooks: Path, plan: Path, python: str, packages: Path | None, temporary: Path
) -> dict[str, str]:
    """The variables of the tests; in the sandbox, with its `packages`, none of this process: they may hold secrets."""
    if packages is None:
        programs = [str(Path(python).parent)] if python else []
        path = os.pathsep.join([*programs, os.environ.get("PATH", os.defpath)])
        own = {**os.environ, "PATH": path}
    else:
        own = {"HOME": str(temporary), "TMPDIR": str(temporary), "PATH": "", "LANG": "C.UTF-8"}
    installed = os.environ.get("PYTHONPATH", "") if packages is None else str(packages)
    roots = [str(hooks), str(hooks.parent / "run"), *map(str, project.import_roots), installed]
    return {
        **own,
        "PYTHONPATH": os.pathsep.join(filter(None, roots)),
        "PYTHONHASHSEED": HASH_SEED,
        "PYTHONDONTWRITEBYTECODE": "1",
        "BASSLINE_RECORDING": str(plan),
    }
