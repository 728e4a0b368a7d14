"""Works runs to their end with live progress on stderr: in this process, or by the server that has the database."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import uuid
from collections.abc import Iterator
from types import FrameType
from typing import Any

import click

from app.commands import handover
from app.commands.common import failed, result_console, write_json
from app.commands.progress import show
from app.commands.report import run_tables
from app.context import Context
from app.errors import BasslineError, Conflict
from app.jobs.embedded import Embedded, InUse
from app.runs import transitions
from app.runs.event_stream import follow
from app.runs.models import Run
from app.runs.render import run_document
from app.runs.repository import get_run, progress
from app.states import RunState
from app.ui.terminal import stderr

BEAT_S = 0.5


class Interrupted(BasslineError):  # noqa: N818 (reads as what happened)
    """Ctrl-C; what was finished is kept."""


class Place:
    """Who works the runs of this command: this process, or (`server`) the one that has the database.

    `options` are what a run must be submitted with to be worked there.
    """

    def __init__(self, ctx: Context, *, server: bool) -> None:
        self.server = server
        self._ctx = ctx
        self.options: dict[str, Any] = {"handover": True} if server else {"pinned_worker": ctx.worker_name}

    def work(self, run_id: uuid.UUID) -> Run:
        """Waits for the end of a run that was submitted with `options`, whatever it is. Returns the ended run.

        Raises Interrupted after Ctrl-C, and Unavailable when the server goes away.
        """
        ctx = self._ctx
        try:
            show(ctx, run_id, handover.events(ctx, run_id) if self.server else follow(ctx, run_id, beat_s=BEAT_S))
        except KeyboardInterrupt:
            if self.server:
                raise Interrupted(_leave_or_cancel(ctx, run_id)) from None
            if transitions.interrupt(ctx, run_id, "interrupted from the keyboard"):
                raise Interrupted(
                    f"interrupted: finished samples are kept; `bassline runs resume {run_id}` does the rest"
                ) from None
        with ctx.database.read() as session:
            return get_run(session, run_id)


@contextlib.contextmanager
def workers(ctx: Context, purpose: str) -> Iterator[Place]:
    """Where this command's runs are worked: broker and workers in this process, for runs pinned to it.

    While `bassline serve` has the database, its workers do it. SIGTERM counts as Ctrl-C. Raises InUse for a database
    that another command has.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_terminate_as_interrupt())
        try:
            stack.enter_context(Embedded(ctx, purpose, foreground=True))
            server = False
        except InUse as error:
            if not error.by_server:
                raise
            server = True
            stderr().print("`bassline serve` has this database: its workers do the work", style="dim")
        yield Place(ctx, server=server)


def report(ctx: Context, run: Run, json_file: str | None) -> None:
    """Prints and writes an ended run. Raises BasslineError unless it is finished."""
    with ctx.database.read() as session:
        counts = progress(session, run)
    write_json(json_file, run_document(run))
    run_tables(result_console(json_file), run, counts)
    if run.state is not RunState.FINISHED:
        raise failed(f"the run ended as {run.state}: {run.error or 'see `bassline runs show`'}")


def asks() -> bool:
    """Whether somebody is there to answer a question."""
    return sys.stdin.isatty()


def _leave_or_cancel(ctx: Context, run_id: uuid.UUID) -> str:
    """Asks, where somebody is there to answer, whether the server shall go on with the run. Returns what came of it."""
    if asks():
        with contextlib.suppress(KeyboardInterrupt, click.Abort):
            if click.confirm("The server works this run. Cancel it?", default=False, err=True):
                with contextlib.suppress(Conflict):  # it has ended in the meantime
                    transitions.cancel(ctx, run_id)
                return f"cancelled: finished samples are kept; `bassline runs resume {run_id}` does the rest"
    return f"the server goes on with the run: `bassline runs show {run_id}` shows it, `bassline runs cancel` ends it"


@contextlib.contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
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
