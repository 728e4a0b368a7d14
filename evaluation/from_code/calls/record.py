"""Runs the project's own tests in its own interpreter and collects the calls of its functions.

The tests are the user's code in the user's environment: nothing confines them. They get a wall-clock limit, after which
they and all processes they started are ended; their output is read to its end and its last part kept.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from evaluation.from_code.reasons import ProjectError
from evaluation.from_code.recording import calls as recording_calls
from evaluation.from_code.source.find import Function
from evaluation.from_code.source.project import Project

HASH_SEED = "1"
"""Of the recording; the sandbox has another, so that results that depend on the order of a set do not repeat there."""
_SOURCE = Path(recording_calls.__file__).parent
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_KEPT_OUTPUT = 8 * 2**10
_END_S = 5.0
"""Seconds to wait for killed processes to be gone."""
_DOCTESTS = "bassline_doctests"
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


@dataclass(frozen=True)
class Call:
    """One recorded call. `call` is the text of (args, kwargs); `returned` that of the result, or `raised` the names of
    the exception's class and its bases. `after` is the text of the arguments after the call where it changed them.
    `iterator` is the type of a result that is an iterator: its items were not recorded, since reading them would have
    taken them from the caller."""

    call: str
    digest: str
    shape: str
    returned: str | None = None
    raised: tuple[str, ...] = ()
    after: str | None = None
    iterator: str = ""


@dataclass
class Recording:
    """What was recorded: calls by function key, types of results that are not plain data, and how the tests ended.

    `exit_code` is None where the tests were ended at the limit of `seconds`.
    """

    calls: dict[str, list[Call]] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=dict)
    exit_code: int | None = 0
    output: str = ""
    seconds: float = 0.0

    @property
    def last_line(self) -> str:
        """The last line that the tests printed."""
        lines = [line for line in _COLOURS.sub("", self.output).splitlines() if line.strip()]
        return lines[-1].strip()[:200] if lines else ""


def doctest_command(python: str, project: Project) -> list[str]:
    """The command that runs the doctests of all modules that have examples."""
    names = [name for name, module in sorted(project.modules.items()) if ">>>" in module.source]
    if not names:
        raise ProjectError(f"{project.name} has no doctests: give the command of its tests with --tests")
    return [python, "-m", _DOCTESTS, *names]


def record(
    project: Project,
    functions: Sequence[Function],
    commands: Sequence[Sequence[str]],
    folder: Path,
    limit_s: float,
    on_second: Callable[[float], None] = lambda _seconds: None,
) -> Recording:
    """Run the commands one after the other, each for at most `limit_s` seconds, and return what was recorded.

    `folder` is for the recorder's files; `on_second` is called with the seconds that passed. Raises ProjectError where
    a command cannot be started. On KeyboardInterrupt the tests are ended first.
    """
    shutil.rmtree(folder, ignore_errors=True)
    calls_folder = folder / "calls"
    calls_folder.mkdir(parents=True)
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"folder": str(calls_folder), "targets": _targets(project, functions)}), "utf-8")
    environment = _environment(project, _hooks(folder), plan)
    recording = Recording()
    started = time.monotonic()
    for command in commands:
        exit_code, output = _run(command, project.root, environment, limit_s, on_second)
        recording.output += output
        if recording.exit_code == 0:
            recording.exit_code = exit_code
    recording.seconds = time.monotonic() - started
    _collect(calls_folder, recording, _local_paths(project))
    return recording


def _local_paths(project: Project) -> list[str]:
    """Folders of this machine as they would stand in a recorded text."""
    folders = {str(project.root), os.path.realpath(project.root)}
    folders |= {f"{folder}/" for folder in (tempfile.gettempdir(), str(Path.home())) if folder != "/"}
    return [json.dumps(folder)[1:-1] for folder in sorted(folders)]


def _targets(project: Project, functions: Sequence[Function]) -> dict[str, list[tuple[str, int, str, bool]]]:
    targets: dict[str, list[tuple[str, int, str, bool]]] = {}
    for function in functions:
        if not function.reason:
            path = os.path.realpath(project.root / function.module.path)
            node = function.node
            targets.setdefault(path, []).append((node.name, node.lineno, function.key, function.is_generator))
    return targets


def _hooks(folder: Path) -> Path:
    """A folder for PYTHONPATH: the module that Python imports when it starts, and the package that it needs."""
    hooks = folder / "hooks"
    package = hooks / "bassline_recording"
    package.mkdir(parents=True)
    for name in ("__init__", "values", "calls", "hook"):
        shutil.copyfile(_SOURCE / f"{name}.py", package / f"{name}.py")
    shutil.copyfile(_SOURCE / "sitecustomize.py", hooks / "sitecustomize.py")
    run = folder / "run"
    run.mkdir()
    shutil.copyfile(_SOURCE / "doctests.py", run / f"{_DOCTESTS}.py")
    return hooks


def _environment(project: Project, hooks: Path, plan: Path) -> dict[str, str]:
    own = [*map(str, project.import_roots), os.environ.get("PYTHONPATH", "")]
    path = [str(hooks), str(hooks.parent / "run"), *filter(None, own)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONHASHSEED": HASH_SEED,
        "PYTHONDONTWRITEBYTECODE": "1",
        "BASSLINE_RECORDING": str(plan),
    }


def _run(
    command: Sequence[str],
    folder: Path,
    environment: dict[str, str],
    limit_s: float,
    on_second: Callable[[float], None],
) -> tuple[int | None, str]:
    try:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_end_with_parent,  # noqa: PLW1509  (no import and no lock in there)
        )  # fmt: skip
    except OSError as error:
        raise ProjectError(
            f"the tests cannot be started: {command[0]}: {error.strerror}; name the project's interpreter in full, as "
            'in --tests "/path/to/venv/bin/python -m pytest -q"'
        ) from None
    tail = bytearray()
    reader = threading.Thread(target=_read_tail, args=(process, tail), daemon=True)
    reader.start()
    started = time.monotonic()
    try:
        while (passed := time.monotonic() - started) < limit_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(1.0, limit_s - passed))
                break
            on_second(passed)
    finally:
        exit_code = process.poll()
        _end(process)
        reader.join(5)
    return exit_code, bytes(tail).decode("utf-8", "replace")


def _end_with_parent() -> None:
    """In the new process: the tests end if this process is killed, so that no second ones start beside them."""
    if _PRCTL is not None:
        _PRCTL(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _read_tail(process: subprocess.Popen[bytes], tail: bytearray) -> None:
    assert process.stdout is not None
    with contextlib.suppress(OSError, ValueError):
        while data := process.stdout.read1(65536):  # type: ignore[attr-defined]
            tail += data
            del tail[:-_KEPT_OUTPUT]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the tests, the processes that they started, and those of their session that outlived their parent."""
    children: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(process.pid).children(recursive=True)
    for child in children:
        with contextlib.suppress(psutil.Error):
            child.kill()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    psutil.wait_procs(children, _END_S)


def _collect(folder: Path, recording: Recording, local_paths: Sequence[str]) -> None:
    """Join the files of all processes; each function keeps the calls that one process alone would have kept.

    Calls that name a folder of this machine are dropped: another machine would record others.
    """
    found: dict[str, dict[str, Call]] = {}
    for file in sorted(folder.glob("calls-*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:  # the process was killed while it wrote
                continue
            texts = [row.get(name) or "" for name in ("call", "returned", "after")]
            if any(path in text for path in local_paths for text in texts):
                continue
            if "refused" in row:
                recording.refused.setdefault(row["function"], []).append(row["refused"])
                continue
            call = Call(
                row["call"], row["digest"], row["shape"], row.get("returned"), tuple(row.get("raised", ())),
                row.get("after"), row.get("iterator", ""),
            )  # fmt: skip
            found.setdefault(row["function"], {}).setdefault(call.digest, call)
    for key, by_digest in found.items():
        recording.calls[key] = _smallest(list(by_digest.values()))


def _smallest(every: list[Call]) -> list[Call]:
    """The calls with the smallest digests, as `recording.calls` chooses them."""
    every.sort(key=lambda call: call.digest)
    kept: dict[str, Call] = {call.digest: call for call in every[: recording_calls.KEPT]}
    counts: dict[str, int] = {}
    for call in every:
        for kind in (f"shape {call.shape}", *(f"raised {name}" for name in call.raised[:1])):
            counts[kind] = counts.get(kind, 0) + 1
            if counts[kind] <= recording_calls.KEPT_OF_A_KIND:
                kept[call.digest] = call
    return sorted(kept.values(), key=lambda call: call.digest)
