"""Finishes runs and studies with live progress, in this process or in the server that owns the database."""

from __future__ import annotations

import contextlib
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

from app.cli import report
from app.cli.live_progress import ServerWatch, follow_run, follow_study
from app.core.context import Context
from app.core.errors import BadInputError, BasslineError
from app.core.remote import target as remote
from app.core.states import RunState
from app.core.terminal import open_stderr
from app.jobs.database_lock import InUseError
from app.jobs.embedded import EmbeddedWorkers
from app.language_models.service import require_model
from app.runs import transitions
from app.runs.models import Run
from app.runs.repository import get_run
from app.runs.schemas import EngineOptions
from app.studies import service as studies
from app.studies.schemas import StudySpec, name_arm_in_errors
from decoding.drafters.registry import parse_drafter
from decoding.models.registry import LocalFolder, LocalGguf

S = TypeVar("S", bound=EngineOptions)


def prepare_for_server(ctx: Context, spec: S) -> S:
    """The specification with absolute paths, for a server in another folder.

    Raises BadInputError for an endpoint that the server may not use.
    """
    if remote.is_remote(spec.target):
        try:
            remote.require_allowed_endpoint(spec.target, ctx.settings.remote_endpoints)
        except BadInputError:
            raise BadInputError(
                "target names an endpoint that the running `bassline serve` may not use: add its address to the "
                "server's BASSLINE_REMOTE_ENDPOINTS, or stop the server and try again",
                "target",
            ) from None
        return spec
    changes = {"target": _make_absolute(spec.target)}
    draft = parse_drafter(spec.drafter).model
    if draft:
        changes["drafter"] = spec.drafter.removesuffix(draft) + _make_absolute(draft)
    return spec.model_copy(update=changes)


def prepare_study_for_server(ctx: Context, spec: StudySpec) -> StudySpec:
    """The same for every arm of a study. Raises BadInputError that names the arm."""
    arms = []
    for number, (arm, name) in enumerate(zip(spec.arms, spec.list_names(), strict=True), start=1):
        with name_arm_in_errors(number, name):
            arms.append(prepare_for_server(ctx, arm))
    return spec.model_copy(update={"arms": tuple(arms)})


def _make_absolute(reference: str) -> str:
    entry = require_model(reference)
    return str(entry.path) if isinstance(entry, LocalFolder | LocalGguf) else reference


class UserInterruptError(BasslineError):
    """Ctrl-C or SIGTERM ended the wait."""


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
        with self._hold_interruptible("run", "runs", run_id, transitions.interrupt):
            self.follow(run_id)
        with self._ctx.database.read() as session:
            return get_run(session, run_id)

    def follow(self, run_id: uuid.UUID) -> None:
        """Waits for a run as `wait_for_run` does. KeyboardInterrupt passes through."""
        follow_run(self._ctx, run_id, self._watch_server("run", "runs", run_id))

    def submit_study(self, spec: StudySpec, **options: Any) -> uuid.UUID:
        """Submits a study to be decoded here. Returns its id; raises as `service.submit` does."""
        spec = prepare_study_for_server(self._ctx, spec) if self.server else spec
        return studies.submit(self._ctx, spec, **options, **self.options)

    def wait_for_study(self, study_id: uuid.UUID) -> None:
        """The same for a study. Raises as `wait_for_run` does."""
        with self._hold_interruptible("study", "study", study_id, studies.interrupt):
            follow_study(self._ctx, study_id, self._watch_server("study", "study", study_id))

    def _watch_server(self, noun: str, group: str, row_id: uuid.UUID) -> ServerWatch | None:
        return ServerWatch(self._ctx, noun, f"bassline {group} cancel {row_id}") if self.server else None

    @contextlib.contextmanager
    def _hold_interruptible(
        self, noun: str, group: str, row_id: uuid.UUID, interrupt: Callable[[Context, uuid.UUID, str], bool]
    ) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            command = f"bassline {group}"
            if self.server:
                shows, ends = f"`{command} show {row_id}` shows it", f"`{command} cancel {row_id}` ends it"
                raise UserInterruptError(f"the server continues the {noun}: {shows}, {ends}") from None
            if interrupt(self._ctx, row_id, "interrupted from the keyboard"):
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
    run = report.print_run(ctx, run.id, json_file)
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
