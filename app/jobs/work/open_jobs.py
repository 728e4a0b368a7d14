"""The jobs that an engine decodes in one batch: each keeps its own lease, and ends by itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from app.jobs.lease import Stop
from app.jobs.work.decode_job import DecodeJob
from decoding.request import Completion, Update


class OpenJobs:
    """Jobs from the moment they are claimed until their outcome is stored. `sent[i]` is the job of the i-th request."""

    def __init__(self) -> None:
        self.sent: list[DecodeJob] = []
        self._open: dict[DecodeJob, ExitStack] = {}  # each entered, to be left when its outcome is there

    def __len__(self) -> int:
        return len(self._open)

    @property
    def jobs(self) -> Sequence[DecodeJob]:
        """Those that have no outcome yet."""
        return list(self._open)

    def enter(self, job: DecodeJob) -> None:
        """Begins the job's lease."""
        self._open[job] = ExitStack()
        self._open[job].enter_context(job)

    def update(self, position: int, updates: Sequence[Update]) -> None:
        """Passes on what a round added to the samples of one request."""
        self.sent[position].live_updates(updates)

    def end(self, job: DecodeJob, outcome: Completion | Exception, stop: Stop | None = None) -> None:
        """Stores the samples of a job, or ends it with the error. `stop` is why its work is not wanted any more."""
        with self._open.pop(job):
            if isinstance(outcome, Exception):
                raise outcome
            job.end_clock()
            job.store(outcome, stop or job.lease.stop)

    def end_all(self, error: Exception) -> None:
        """Ends the jobs that are still open with the error that ended the batch."""
        with ExitStack() as each:  # every one of them, even if the database refuses another
            for job in self.jobs:
                each.callback(self.end, job, error)

    def close(self) -> None:
        """Ends the leases of jobs that are still open."""
        for entered in self._open.values():
            entered.close()
