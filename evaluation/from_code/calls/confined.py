"""Runs the commands of a project's tests in the sandbox: for projects whose code nobody here has read.

They get what the compiler of a language gets: they may start processes, and write in one folder alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from evaluation.from_code.calls.commands import resolve_command
from evaluation.from_code.reasons import ProjectError
from evaluation.sandbox import Command, Limits, ProgramEndedError, ProgramSlot, RunningProgram, Sandbox, Tools
from evaluation.sandbox.zygotes import ZygoteError
from evaluation.verdicts import Status

NEEDS_BWRAP = "the tests of an uploaded project run only in the sandbox's tier bwrap"
_LIMITS = Limits(memory_bytes=2 * 2**30, file_bytes=64 * 2**20, open_files=256, threads=64)
_FOLDER_BYTES = 256 * 2**20
_IN_FOLDER = "import os, sys; os.chdir(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
_SECOND = 1.0


@dataclass(frozen=True)
class Confinement:
    """The sandbox for the tests of an untrusted project; `packages` is the folder of installed packages."""

    sandbox: Sandbox
    packages: Path

    def require_namespaces(self) -> None:
        """Raises ProjectError where this machine cannot confine the tests."""
        if not self.sandbox.tier.namespaces:
            raise ProjectError(
                f"{NEEDS_BWRAP}, and this machine has the tier {self.sandbox.tier_name}: see `bassline doctor`"
            )

    def resolve(self, command: str) -> list[str]:
        """The words of a command. Raises ProjectError for one that the sandbox cannot start."""
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ProjectError(f"the command of the tests cannot be read: {error}") from None
        python = self.sandbox.python.executable
        found = resolve_command(words, python) if words else words
        if found[:1] != [python]:
            raise ProjectError(
                f"the sandbox starts no {words[0] if words else 'empty command'}: begin the command of the tests with "
                "python or pytest, as in python -m pytest -q"
            )
        return found


@contextmanager
def open_slot(confinement: Confinement, root: Path) -> Iterator[ProgramSlot]:
    """A folder in which the tests of the project in `root` may write, and the process that starts them.

    Raises ProjectError where this machine cannot confine them.
    """
    confinement.require_namespaces()
    sandbox = confinement.sandbox
    trees = (str(root), str(confinement.packages), sandbox.python.executable)
    tools = Tools(Command(()), trees, Command(()), _LIMITS, _FOLDER_BYTES)
    try:
        slot = ProgramSlot.start(sandbox.tier, sandbox.python, tools)
    except (ZygoteError, OSError) as error:
        raise ProjectError(f"the sandbox does not start: {error}") from None
    try:
        yield slot
    finally:
        slot.close()


def run_confined(
    slot: ProgramSlot,
    command: Sequence[str],
    root: Path,
    environment: dict[str, str],
    limit_s: float,
    on_second: Callable[[float], None],
) -> tuple[int | None, str]:
    """(exit code, what it printed) of a command in `root`; the exit code is None at the limit of seconds.

    All that it started ends with it. Raises ProjectError where it cannot be started.
    """
    argv = (command[0], "-I", "-S", "-c", _IN_FOLDER, str(root), *command)
    slot.tools = replace(slot.tools, compile=Command(argv, tuple(environment.items())))
    program = RunningProgram(slot, replace(_LIMITS, cpu_s=int(limit_s), wall_s=limit_s), compiling=True)
    started = told = monotonic()

    def tell() -> None:
        nonlocal told
        if monotonic() - told >= _SECOND:
            told = monotonic()
            on_second(told - started)

    ended: ProgramEndedError | None = None
    try:
        with program:
            program.wait(tell)
    except ProgramEndedError as error:
        ended = error
    except (ZygoteError, OSError) as error:
        raise ProjectError(f"the tests cannot be started in the sandbox: {error}") from None
    output = program.output.decode("utf-8", "replace")
    if ended is None:
        return program.exit_code, output
    return (None if ended.status is Status.TIMEOUT else -9), f"{output}\n{ended.detail}"
