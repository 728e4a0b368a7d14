"""The words for states, shared by database, API, pages and command line.

The statuses of a verdict are in evaluation/verdicts.py.
"""

from __future__ import annotations

import enum

from evaluation.verdicts import Status


class RunState(enum.StrEnum):
    """A run: waiting, running, or ended in one of four ways."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    FAILED = "failed"


class RunKind(enum.StrEnum):
    """Why a run exists.

    `baseline` is shown in no list: a reference run, or one being stored or deleted; `imported` has another tool's
    samples.
    """

    EVAL = "eval"
    COMPLETION = "complete"
    HIDDEN = "baseline"
    IMPORTED = "imported"


class TaskState(enum.StrEnum):
    """A job of a run (table `run_tasks`): decoded by one step, graded by the next, each claimed on its own.

    `skipped` is a task that the run's time limit or a race left undone; `failed` carries the reason in `error`.
    """

    QUEUED = "queued"
    DECODING = "decoding"
    DECODED = "decoded"
    GRADING = "grading"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class BackgroundJobState(enum.StrEnum):
    """A background job (app/background/models.py, table `jobs`)."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Failure(enum.StrEnum):
    """Why a run or one of its tasks failed; `error` beside it says so in words.

    `request`: the prompt or a parameter cannot be honoured. `model`: the engine cannot be loaded. `dataset`: the run
    cannot be prepared. `decoding` and `grading`: that step raised, three times. `worker_lost`: its workers stopped
    answering, three times.
    """

    REQUEST = "request"
    MODEL = "model"
    DATASET = "dataset"
    DECODING = "decoding"
    GRADING = "grading"
    WORKER_LOST = "worker_lost"

    @property
    def internal(self) -> bool:
        """Whether the service is at fault: the same request may succeed later."""
        return self in (Failure.DECODING, Failure.GRADING, Failure.WORKER_LOST)


class WorkStep(enum.Enum):
    """The two steps of a run's task: (state it waits in, state while claimed, failure if it raises)."""

    DECODE = (TaskState.QUEUED, TaskState.DECODING, Failure.DECODING)
    GRADE = (TaskState.DECODED, TaskState.GRADING, Failure.GRADING)

    def __init__(self, waiting: TaskState, working: TaskState, failure: Failure) -> None:
        self.waiting, self.working, self.failure = waiting, working, failure


class DatasetKind(enum.StrEnum):
    """Where a dataset came from."""

    BUILTIN = "builtin"
    IMPORTED = "imported"


class Scope(enum.StrEnum):
    """What a caller may do; each includes those before it.

    `read` looks, `submit` also starts, cancels and imports, `admin` also deletes and sees everybody's tokens.
    """

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"

    def allows(self, needed: Scope) -> bool:
        """Whether a caller with this scope may do what needs `needed`."""
        order = list(Scope)
        return order.index(self) >= order.index(needed)


LISTED_RUN_KINDS = (RunKind.EVAL, RunKind.IMPORTED)  # completions have a list of their own, and hidden runs none
OPEN_BACKGROUND_JOB_STATES = (BackgroundJobState.QUEUED, BackgroundJobState.RUNNING)
OPEN_RUN_STATES = (RunState.QUEUED, RunState.RUNNING)
OPEN_TASK_STATES = (TaskState.QUEUED, TaskState.DECODING, TaskState.DECODED, TaskState.GRADING)
# These do not show that a worker took the task; a cancelled one may have been taken all the same.
UNTOUCHED_TASK_STATES = (TaskState.QUEUED, TaskState.CANCELLED, TaskState.SKIPPED)
UNDECODED_TASK_STATES = (TaskState.QUEUED, TaskState.DECODING)
DECODED_TASK_STATES = (TaskState.DECODED, TaskState.GRADING, TaskState.FINISHED)
PASSED, SANDBOX_ERROR = Status.PASSED, Status.SANDBOX_ERROR
