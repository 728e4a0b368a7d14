"""A completion against plain decoding: the prompt decoded with speculation, then plainly, and what that showed."""

from __future__ import annotations

import contextlib
import uuid

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.completions import lanes, service
from app.completions.lanes import CompletionView
from app.completions.models import CompletionRun
from app.completions.schemas import CompletionSpec
from app.core.context import Context
from app.core.errors import ConflictError, NotFoundError
from app.core.states import PASSED, RunState
from app.runs import transitions
from app.runs.schemas import DecodingSpec
from app.samples.models import Sample
from app.web.ui.units import format_count, format_seconds

PLAIN = "none"
MIN_SPEED_RATIO = 1.05  # a smaller ratio counts as the same speed


def submit(ctx: Context, spec: CompletionSpec) -> uuid.UUID:
    """Stores the completion with its drafter (or the default one), then without any. Returns the first's id.

    The second begins when the first has ended, so neither slows the other down. Neither uses the prefix cache: the
    second would have the prompt from the first. Raises BadInputError, with nothing stored.
    """
    default = DecodingSpec.model_fields["drafter"].default
    speculative = spec.model_copy(update={"drafter": default if spec.drafter == PLAIN else spec.drafter})
    plain = spec.model_copy(update={"drafter": PLAIN})
    service.validate_spec(ctx, speculative)
    service.validate_spec(ctx, plain)
    first = service.submit(ctx, speculative, prefix_cache=False)
    service.submit(ctx, plain, after_id=first, prefix_cache=False)
    return first


def find_plain(session: Session, run_id: uuid.UUID) -> uuid.UUID | None:
    """The id of the plain completion that was asked for beside this one; None once it is deleted."""
    return session.scalar(select(CompletionRun.id).where(CompletionRun.after_id == run_id, CompletionRun.is_shown()))


def cancel(ctx: Context, run_id: uuid.UUID) -> None:
    """Ends what is left of a completion, and of plain decoding beside it; samples that are there are kept."""
    with ctx.database.read() as session:
        plain = find_plain(session, run_id)
    for one in filter(None, (plain, run_id)):  # plain first: otherwise ending the first would start it
        with contextlib.suppress(ConflictError, NotFoundError):
            transitions.cancel(ctx, one)


def load_both_sides(session: Session, run_id: uuid.UUID) -> tuple[CompletionView, CompletionView | None]:
    """A completion, and plain decoding beside it where that was asked for. Raises NotFoundError."""
    plain = find_plain(session, run_id)
    if plain is None:
        return lanes.load_completion_view(session, run_id), None
    return lanes.load_completion_view(session, run_id), lanes.load_completion_view(session, plain)


def conclude(speculative: CompletionView, plain: CompletionView) -> str:
    """What the two showed, in a sentence or two; "" while a side is open."""
    if speculative.open or plain.open:
        return ""
    for name, side in (("speculative", speculative), ("plain", plain)):
        if side.run.state is not RunState.FINISHED:
            end = "failed" if side.run.state is RunState.FAILED else f"was {side.run.state}"
            return f"No result: {name} decoding {end}."
    devices = sorted({speculative.run.device_label, plain.run.device_label})
    if len(devices) > 1:
        return f"No result: the two were decoded on different devices ({' and '.join(devices)})."
    budget = format_seconds(plain.run.budget_s)
    if not speculative.ended and not plain.ended:
        return f"Neither finished an answer within {budget}."
    if not speculative.ended or not plain.ended:
        done, other = ("Speculative", "plain") if speculative.ended else ("Plain", "speculative")
        first_s = (speculative.ended or plain.ended)[0][0]
        return f"{done} finished its first answer in {format_seconds(first_s)}, {other} none within {budget}."
    (fast_s, a), (slow_s, b) = speculative.ended[0], plain.ended[0]
    return f"{_compare_times(fast_s, slow_s)} {_compare_answers(plain.run.graded, a, b)}"


def _compare_times(fast_s: float, slow_s: float) -> str:
    said = f"Speculative finished its first answer in {format_seconds(fast_s)}, plain in {format_seconds(slow_s)}"
    if slow_s >= MIN_SPEED_RATIO * fast_s:
        return f"{said}: {slow_s / fast_s:.1f} times as fast."
    if fast_s >= MIN_SPEED_RATIO * slow_s:
        return f"{said}: speculation made it {fast_s / slow_s:.1f} times as slow here."
    return f"{said}: about the same."


def _compare_answers(graded: bool, a: Sample, b: Sample) -> str:
    """Whether the first answers can be compared: their texts, and what the test says of them."""
    said = "Both wrote the same text"
    if a.raw != b.raw:
        said = f"The two texts differ ({a.n_tokens} and {format_count(b.n_tokens, 'token')}), so the times differ too"
    if not graded:
        return f"{said}."
    right = [name for name, sample in (("speculative", a), ("plain", b)) if sample.verdict == PASSED]
    judged = {0: "neither passes the test", 2: "both pass the test"}
    return f"{said}; {judged.get(len(right)) or f'only {right[0]} passes the test'}."
