"""The jobs that an engine decodes in one batch: each keeps its own lease, and ends by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from app.background.leases import StopReason
from app.core.context import Context
from app.jobs.work.decode_job import DecodeJob
from decoding.request import Completion, Request, Update

if TYPE_CHECKING:
    from app.core.ports import Engine

Outcomes = Iterable[tuple[int, Completion | Exception]]
"""For each request that ends, its number and its samples or error."""


class SharedBatch(ABC):
    """Jobs from their claim until their outcome is stored. `_sent[i]` is the job of the i-th request."""

    def __init__(self, ctx: Context, first: DecodeJob) -> None:
        self._ctx, self._first = ctx, first
        self._sent: list[DecodeJob] = []
        self._open: dict[DecodeJob, ExitStack] = {}  # each entered, to be left when its outcome is there
        self._enter(first)

    def decode(self) -> None:
        """Returns when the batch is empty, and each job stored. An error of the engine ends those that are open."""
        try:
            for position, outcome in self._decode_requests():
                self._end(self._sent[position], outcome)
        except Exception as error:
            with ExitStack() as each:  # every one of them, even if the database refuses another
                for job in list(self._open):
                    each.callback(self._end, job, error)
        finally:
            for entered in self._open.values():
                entered.close()

    @abstractmethod
    def _decode_requests(self) -> Outcomes:
        """What the engine makes of the requests."""

    @abstractmethod
    def _find_stop(self, job: DecodeJob) -> StopReason | None:
        """Why the job's samples are not wanted any more; its lease may notice that later."""

    def _enter(self, job: DecodeJob) -> None:
        """Begins the job's lease."""
        self._open[job] = ExitStack()
        self._open[job].enter_context(job)

    def _start(self, job: DecodeJob, engine: Engine) -> Iterator[Request]:
        """The job's request; none if it cannot be made, which ends the job."""
        try:
            request = job.start(engine)
        except Exception as error:
            self._end(job, error)
            return
        self._sent.append(job)
        yield request

    def _update(self, position: int, updates: Sequence[Update]) -> None:
        """Passes on what a round added to the samples of one request."""
        self._sent[position].live_updates(updates)

    def _end(self, job: DecodeJob, outcome: Completion | Exception) -> None:
        """Stores the samples of a job, or ends it with the error."""
        with self._open.pop(job):
            if isinstance(outcome, Exception):
                raise outcome
            job.end_clock()
            job.store(outcome, self._find_stop(job) or job.lease.stop_reason)
