"""Runs the tests in several processes: `--processes 4`.

They are copies (`fork`) of the process that collected the tests, so torch, transformers and the files of tests are
imported once, which takes 17 CPU seconds; pytest-xdist imports them in each of its processes. The tests of a file stay
in one process, and so do those of some folders.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest

_N_THREADS = pytest.StashKey[int]()
_TOGETHER = ("e2e", "integration")
"""Folders whose tests share what takes long to start: a browser and a populated service, PostgreSQL and Redis."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number of processes."""
    parser.addoption("--processes", type=int, default=1, help="run the tests of a file in one of so many processes")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Let torch compute in one thread meanwhile: a copy of the process would wait for threads that it does not have."""
    if session.config.option.processes < 2:
        return (yield)
    import torch

    session.config.stash[_N_THREADS] = torch.get_num_threads()
    torch.set_num_threads(1)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in processes; None leaves them to pytest, for one process and where collecting them failed."""
    config = session.config
    if config.option.processes < 2 or config.option.collectonly or session.testsfailed:
        return None
    _Run(session).run(config.option.processes)
    return True


def group_tests(tests: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """The tests that stay in one process, by file; those of the slow folders first, so that nobody waits for them."""
    groups: dict[str, list[pytest.Item]] = {}
    for test in tests:
        file = test.nodeid.partition("::")[0]
        folder = next((part for part in file.split("/") if part in _TOGETHER), file)
        groups.setdefault(folder, []).append(test)
    return [groups[key] for key in sorted(groups, key=lambda key: key not in _TOGETHER)]


@dataclass(eq=False)
class _Worker:
    pid: int
    connection: Connection
    tests: deque[pytest.Item] = field(default_factory=deque)  # given to it; the first is the one that runs

    def __post_init__(self) -> None:
        self.end = os.pidfd_open(self.pid)


class _Run:
    """The process that gives out groups of tests, and passes on what is reported."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._config = session.config
        self._groups = deque(group_tests(session.items))
        self._workers: list[_Worker] = []

    def run(self, n_workers: int) -> None:
        """Run all tests. Raises Failed and Interrupted where pytest wants to stop early."""
        try:
            for _ in range(min(n_workers, len(self._groups))):
                self._start_worker(self._groups.popleft())
            while self._workers:
                ready = wait([*(each.connection for each in self._workers), *(each.end for each in self._workers)])
                for worker in list(self._workers):
                    if worker.connection in ready or worker.end in ready:
                        self._read(worker)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        finally:
            for worker in self._workers:
                worker.connection.close()  # it ends after its test
            for worker in self._workers:
                os.waitpid(worker.pid, 0)

    def _start_worker(self, tests: Sequence[pytest.Item]) -> None:
        ours, theirs = Pipe()
        sys.stdout.flush()
        if not (pid := os.fork()):
            ours.close()
            _work(self._session, theirs, tests)
        theirs.close()
        self._workers.append(_Worker(pid, ours, deque(tests)))

    def _read(self, worker: _Worker) -> None:
        try:
            message = worker.connection.recv() if worker.connection.poll() else ("ended", None)
        except (EOFError, ConnectionResetError):
            message = ("ended", None)
        match message:
            case ("idle", _):
                group = self._groups.popleft() if self._groups else []
                worker.tests.extend(group)
                worker.connection.send([each.nodeid for each in group])
            case ("started", nodeid):
                while worker.tests[0].nodeid != nodeid:
                    worker.tests.popleft()
            case ("report", content):
                report = self._config.hook.pytest_report_from_serializable(config=self._config, data=content)
                self._config.hook.pytest_runtest_logreport(report=report)
            case ("warning", (text, filename, line, when, nodeid, location)):
                found = warnings.WarningMessage(Warning(text), Warning, filename, line)
                self._config.hook.pytest_warning_recorded.call_historic(
                    kwargs={"warning_message": found, "when": when, "nodeid": nodeid, "location": location}
                )
            case ("done", _):
                worker.tests.clear()
            case ("ended", _):
                self._end(worker)

    def _end(self, worker: _Worker) -> None:
        """Remove a worker; where a test has ended it, that has failed and another worker gets the others."""
        self._workers.remove(worker)
        worker.connection.close()
        os.close(worker.end)
        code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if not worker.tests:
            return
        test, *others = worker.tests
        text = f"the process that ran it ended: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
        report = pytest.TestReport(test.nodeid, test.location, {}, "failed", text, "call")
        self._config.hook.pytest_runtest_logreport(report=report)
        if others or self._groups:
            self._start_worker(others or self._groups.popleft())


@dataclass(eq=False)
class _Sender:
    """A worker's plugin that sends what happens to the process that started it."""

    config: pytest.Config
    connection: Connection

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.connection.send(("started", nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        content = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.connection.send(("report", content))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        text = f"{warning_message.category.__name__}: {warning_message.message}"
        place = warning_message.filename, warning_message.lineno
        self.connection.send(("warning", (text, *place, when, nodeid, location)))


def _work(session: pytest.Session, connection: Connection, first: Sequence[pytest.Item]) -> None:
    """Run the tests that are given, and end the process."""
    code = 1
    try:
        import torch

        torch.set_num_threads(session.config.stash[_N_THREADS])
        _separate_output(session.config)
        session.config.pluginmanager.register(_Sender(session.config, connection))
        try:
            for test, following in pairwise(chain(_receive_tests(session, connection, first), [None])):
                session.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        finally:
            session._setupstate.teardown_exact(None)  # after an interrupt; else nothing is left
        connection.send(("done", None))  # a test may end the process with exit code 0
        code = 0
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        code = 0  # the other process has ended, and needs no words
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        atexit._run_exitfuncs()
        os._exit(code)


def _receive_tests(
    session: pytest.Session, connection: Connection, first: Sequence[pytest.Item]
) -> Iterator[pytest.Item]:
    """The first tests, and those that are given when the last of them begins: then fixtures that both use stay."""
    by_id = {each.nodeid: each for each in session.items}
    tests = list(first)
    while tests:
        yield from tests
        connection.send(("idle", None))
        tests = [by_id[nodeid] for nodeid in connection.recv()]


def _separate_output(config: pytest.Config) -> None:
    """Give the process files of its own for what tests print, and no terminal."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    terminal: Any = config.pluginmanager.getplugin("terminalreporter")
    terminal._tw._file = Path(os.devnull).open("w")  # noqa: SIM115
