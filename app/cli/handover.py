"""A run or a study that the server finishes for a command. The two processes share nothing but the database."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeVar

from app.core.context import Context
from app.core.errors import BadInputError, UnavailableError
from app.core.remote import target as remote
from app.jobs.database_lock import DatabaseLock
from app.language_models.service import require_model
from app.runs.schemas import EngineOptions
from app.studies.schemas import StudySpec, name_arm_in_errors
from app.workers import service as workers
from app.workers.models import Worker
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


class ServerWatch:
    """Detects that the server is gone. `noun` is what it ran, `cancel_command` cancels it."""

    def __init__(self, ctx: Context, noun: str, cancel_command: str) -> None:
        self._lock = DatabaseLock(ctx.database.file, "")
        self._noun, self._cancel_command = noun, cancel_command
        self._last_alive = time.monotonic()

    def check(self, alive: Sequence[Worker]) -> None:
        """Call it repeatedly with the workers that are alive. Raises UnavailableError once the server is gone."""
        if alive:
            self._last_alive = time.monotonic()
        if time.monotonic() - self._last_alive > workers.ALIVE_S or not self._lock.owner():
            raise UnavailableError(
                f"`bassline serve` has stopped: the {self._noun} continues when it starts again, or "
                f"`{self._cancel_command}` cancels it"
            )


def _make_absolute(reference: str) -> str:
    entry = require_model(reference)
    return str(entry.path) if isinstance(entry, LocalFolder | LocalGguf) else reference
