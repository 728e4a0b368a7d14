"""Works runs to their end in this process, with live progress on stderr: shared by eval, complete and runs resume."""

from __future__ import annotations

import contextlib
import signal
import threading
import uuid
from collections.abc import Iterator
from types import FrameType

from app.commands.progress import show
from app.context import Context
from app.embedded import Embedded
from app.errors import BasslineError
from app.runs import ending
from app.runs.models import Run
from app.runs.repository import get_run


class Interrupted(BasslineError):  # noqa: N818 (reads as what happened)
    """Ctrl-C; what was finished is kept."""


@contextlib.contextmanager
def workers(ctx: Context, purpose: str) -> Iterator[None]:
    """Broker and workers in this process, for runs pinned to it. SIGTERM counts as Ctrl-C."""
    with _terminate_as_interrupt(), Embedded(ctx, purpose, foreground=True):
        yield


def work(ctx: Context, run_id: uuid.UUID) -> Run:
    """Waits, inside `workers`, for the end of a submitted run, whatever it is. Returns the ended run.

    Raises Interrupted after Ctrl-C, when the run has been marked so.
    """
    try:
        show(ctx, run_id)
    except KeyboardInterrupt:
        if ending.interrupt(ctx, run_id, "interrupted from the keyboard"):
            raise Interrupted(
                f"interrupted: finished samples are kept; `bassline runs resume {run_id}` does the rest"
            ) from None
    with ctx.database.read() as session:
        return get_run(session, run_id)


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
