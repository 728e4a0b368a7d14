"""Finishes runs and studies with live progress, in this process or in the server that owns the database."""

from __future__ import annotations

import contextlib
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from app.cli.common import choose_console, write_json
from app.cli.handover import ServerWatch, prepare_study_for_server
from app.cli.live_progress import follow_run, follow_study
from app.cli.report import print_run_tables
from app.core.context import Context
from app.core.errors import BasslineError
from app.core.states import RunState
from app.core.terminal import open_stderr
from app.jobs.database_lock import InUseError
from app.jobs.embedded import EmbeddedWorkers
from app.runs import transitions
from app.runs.documents import dump_run
from app.runs.failures import count_failed_samples
from app.runs.models import Run
from app.runs.repository import compute_progress, get_run
from app.studies import service as studies
from app.studies.schemas import StudySpec


class UserInterruptError(BasslineError):
    """Ctrl-C or SIGTERM ended the wait."""


@dataclass(frozen=True, slots=True)
class _WaitedKind:
    """What a command waits for, a run or a study, and the command group for it."""

    noun: str
    group: str
    interrupt: Callable[[Context, uuid.UUID, str], bool]


_RUN = _WaitedKind("run", "runs", transitions.interrupt)
_STUDY = _WaitedKind("study", "study", studies.interrupt)


class ExecutionSite:
    """Where the runs of this command are decoded: in this process, or (`server`) in the one that owns the database.

    Submit a run or study with `options` to have it decoded there.
    """

    def __init__(self, ctx: Context, *, server: bool) -> None:
        self.server = server
        self._ctx = ctx
        self.options: dict[str, Any] = {"handover": True} if server else {"pinned_worker": ctx.worker_name}

    def wait_for_run(self, run_id: uuid.UUID) -> Run:
        """Waits until a run that was submitted with `options` has ended, in whatever state. Returns it.

        Raises UserInterruptError after Ctrl-C, and UnavailableError once the server is gone.
        """
        with self._hold_interruptible(_RUN, run_id):
            self.follow(run_id)
        with self._ctx.database.read() as session:
            return get_run(session, run_id)

    def follow(self, run_id: uuid.UUID) -> None:
        """Waits for a run as `wait_for_run` does. KeyboardInterrupt passes through."""
        follow_run(self._ctx, run_id, self._watch_server(_RUN, run_id))

    def submit_study(self, spec: StudySpec, **options: Any) -> uuid.UUID:
        """Submits a study to be decoded here. Returns its id; raises as `service.submit` does."""
        spec = prepare_study_for_server(self._ctx, spec) if self.server else spec
        return studies.submit(self._ctx, spec, **options, **self.options)

    def wait_for_study(self, study_id: uuid.UUID) -> None:
        """The same for a study. Raises as `wait_for_run` does."""
        with self._hold_interruptible(_STUDY, study_id):
            follow_study(self._ctx, study_id, self._watch_server(_STUDY, study_id))

    def _watch_server(self, work: _WaitedKind, row_id: uuid.UUID) -> ServerWatch | None:
        cancel_command = f"bassline {work.group} cancel {row_id}"
        return ServerWatch(self._ctx, work.noun, cancel_command) if self.server else None

    @contextlib.contextmanager
    def _hold_interruptible(self, work: _WaitedKind, row_id: uuid.UUID) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            command = f"bassline {work.group}"
            if self.server:
                shows, ends = f"`{command} show {row_id}` shows it", f"`{command} cancel {row_id}` ends it"
                raise UserInterruptError(f"the server continues the {work.noun}: {shows}, {ends}") from None
            if work.interrupt(self._ctx, row_id, "interrupted from the keyboard"):
                raise UserInterruptError(
                    f"interrupted: finished samples are kept; `{command} resume {row_id}` finishes it"
                ) from None


@contextlib.contextmanager
def hold_workers(ctx: Context, purpose: str) -> Iterator[ExecutionSite]:
    """Workers for this command's runs: in this process, for runs pinned to it.

    While `bassline serve` owns the database, its workers are used. SIGTERM counts as Ctrl-C. Raises InUseError if
    another command owns the database.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(treat_sigterm_as_interrupt())
        try:
            stack.enter_context(EmbeddedWorkers(ctx, purpose, pinned_only=True))
            server = False
        except InUseError as error:
            if not error.by_server:
                raise
            server = True
            open_stderr().print("`bassline serve` owns this database, so its workers are used", style="dim")
        yield ExecutionSite(ctx, server=server)


def report_run(ctx: Context, run: Run, json_file: str | None) -> None:
    """Prints and writes an ended run. Raises BasslineError unless it is finished."""
    with ctx.database.read() as session:
        counts, failed_samples = compute_progress(session, run), count_failed_samples(session, [run.id])
    write_json(json_file, dump_run(run))
    print_run_tables(choose_console(json_file), run, counts, failed_samples)
    if run.state is not RunState.FINISHED:
        raise BasslineError(f"the run ended as {run.state}: {run.error or 'see `bassline runs show`'}")


@contextlib.contextmanager
def treat_sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM counts as Ctrl-C in the block: it raises KeyboardInterrupt."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
