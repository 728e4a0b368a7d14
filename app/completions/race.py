"""A race: two completions of one prompt, decoded one after the other."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.completions import service
from app.completions.models import Completion
from app.completions.schemas import CompletionSpec
from app.context import Context
from app.errors import BadInputError, ConflictError, NotFoundError
from app.runs import presentation as shown
from app.runs import repository, transitions
from app.runs.figures import in_budget_s
from app.runs.models import Run, RunTask
from app.samples.models import Sample
from app.states import OPEN_RUN_STATES, PASSED


@dataclass(frozen=True)
class Side:
    """One completion of a race, called A or B; without `run` and `row` it has been deleted."""

    name: str
    run: Completion | None
    row: RunTask | None

    @property
    def open(self) -> bool:
        """Whether it is still to be decoded or judged."""
        return self.run is not None and self.run.state in OPEN_RUN_STATES

    @property
    def samples(self) -> Sequence[Sample]:
        """Its samples; none before the engine has returned."""
        return self.row.samples if self.row else ()

    @property
    def first_token_s(self) -> float | None:
        """Seconds to the first token of any sample. These and the others are on the engine's clock of this side."""
        return min((s.first_token_s for s in self.samples if s.first_token_s is not None), default=None)

    @property
    def first_finished_s(self) -> float | None:
        """Seconds to the first sample that finished within the budget."""
        return min(self._finish_times(), default=None)

    @property
    def first_right_s(self) -> float | None:
        """Seconds to the first sample that finished within the budget and passes the test."""
        return min(self._finish_times(only_right=True), default=None)

    @property
    def ended_s(self) -> float | None:
        """Seconds until no sample was decoded any more."""
        return max((s.finished_s for s in self.samples if s.finished_s is not None), default=None)

    @property
    def finished(self) -> int:
        """How many samples finished within the budget."""
        return len(self._finish_times())

    @property
    def right(self) -> int:
        """How many of those pass the test."""
        return len(self._finish_times(only_right=True))

    @property
    def chosen_s(self) -> float | None:
        """When the sample that Pass@First counts finished, if it is right."""
        best = shown.chosen(self.samples)
        return in_budget_s(best) if best is not None and best.verdict == PASSED else None

    def _finish_times(self, *, only_right: bool = False) -> list[float]:
        right = (s for s in self.samples if s.verdict == PASSED or not only_right)
        return [t for s in right if (t := in_budget_s(s)) is not None]


def submit(ctx: Context, a: CompletionSpec, b: CompletionSpec) -> tuple[uuid.UUID, uuid.UUID]:
    """Stores both completions; B begins when A has ended, so neither slows the other down. Returns their ids.

    Neither uses the prefix cache: B would have the prompt from A. Raises BadInputError, with nothing stored.
    """
    service.check(ctx, a)
    service.check(ctx, b)
    first = service.submit(ctx, a, prefix_cache=False)
    return first, service.submit(ctx, b, after_id=first, prefix_cache=False)


def cancel(ctx: Context, a: uuid.UUID, b: uuid.UUID) -> None:
    """Ends what is left of a race; samples that are there are kept."""
    for run_id in (b, a):  # B first: the end of A would begin it
        with contextlib.suppress(ConflictError, NotFoundError):
            transitions.cancel(ctx, run_id)


def load(session: Session, a: uuid.UUID, b: uuid.UUID) -> tuple[Side, Side]:
    """Both sides. Raises NotFoundError if neither is there, and BadInputError unless both complete one prompt."""
    first, second = side(session, "A", a), side(session, "B", b)
    if first.run is None and second.run is None:
        raise NotFoundError(
            "both completions of this race have been deleted: a service keeps completions for some days"
        )
    if first.run and second.run and first.run.prompts_sha256 != second.run.prompts_sha256:
        raise BadInputError(
            "the two completions have different prompts or tests: race two configurations on one prompt"
        )
    return first, second


def first_job(session: Session, run: Run) -> tuple[Completion, RunTask]:
    """The run, which must be a completion, and the job of its first prompt with its samples. Raises NotFoundError."""
    if not isinstance(run, Completion):
        raise NotFoundError(f"run {run.id} is not a completion: open it under Runs")
    return run, repository.tasks_with_samples(session, run.id, origins=True)[0]


def side(session: Session, name: str, run_id: uuid.UUID) -> Side:
    """One side of a race. Raises NotFoundError for a run that is not a completion."""
    try:
        run = repository.get_run(session, run_id)
    except NotFoundError:
        return Side(name, None, None)
    return Side(name, *first_job(session, run))
