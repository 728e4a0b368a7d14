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
from app.runs.figures import get_finish_time
from app.runs.schemas import DecodingSpec
from app.web.ui.units import format_count, format_seconds

PLAIN = "none"
MIN_SPEED_RATIO = 1.05  # a smaller ratio counts as the same speed


def submit(ctx: Context, spec: CompletionSpec) -> uuid.UUID:
    """Stores the completion with its drafter (with the default one if it has none) and the same without. Returns the
    id of the first.

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
    first, second = (lanes.load_completion_view(session, one, chosen_first=False) for one in (run_id, plain))
    return first, second


def conclude(speculative: CompletionView, plain: CompletionView) -> str:
    """What the two showed, in a sentence or two; "" while a side is open."""
    if speculative.open or plain.open:
        return ""
    for name, side in (("Speculative", speculative), ("Plain", plain)):
        if side.run.state is not RunState.FINISHED:
            return f"No result: {name.lower()} decoding {_describe_end(side)}."
    devices = sorted({speculative.run.device_label, plain.run.device_label})
    if len(devices) > 1:
        return f"No result: the two were decoded on different devices ({' and '.join(devices)})."
    return " ".join(filter(None, (_compare_times(speculative, plain), _compare_answers(speculative, plain))))


def _describe_end(side: CompletionView) -> str:
    return "failed" if side.run.state is RunState.FAILED else f"was {side.run.state}"


def _compare_times(speculative: CompletionView, plain: CompletionView) -> str:
    """Who finished an answer first, and how much sooner."""
    fast, slow = _get_first_s(speculative), _get_first_s(plain)
    budget = format_seconds(plain.run.budget_s)
    if fast is None and slow is None:
        wrote = (
            f"speculative wrote {format_count(speculative.tokens, 'token')}, plain "
            f"{format_count(plain.tokens, 'token')}"
        )
        return f"Neither finished an answer within {budget}; {wrote}."
    if fast is None:
        return f"Plain finished its first answer in {format_seconds(slow)}; speculative finished none within {budget}."
    said = f"Speculative finished its first answer in {format_seconds(fast)}, "
    if slow is None:
        return f"{said}plain finished none within {budget}: more than {plain.run.budget_s / fast:.1f} times as fast."
    if slow >= MIN_SPEED_RATIO * fast:
        return f"{said}plain in {format_seconds(slow)}: {slow / fast:.1f} times as fast."
    if fast >= MIN_SPEED_RATIO * slow:
        return f"{said}plain in {format_seconds(slow)}: speculation made it {fast / slow:.1f} times as slow here."
    return f"{said}plain in {format_seconds(slow)}: about the same."


def _compare_answers(speculative: CompletionView, plain: CompletionView) -> str:
    """Whether the two first answers can be compared: their texts, and what the test says of them."""
    a, b = speculative.first, plain.first
    if a is None or b is None:
        return ""
    said = "Both wrote the same text"
    if a.raw != b.raw:
        said = f"The two texts differ ({a.n_tokens} and {format_count(b.n_tokens, 'token')}), so the times differ too"
    if not plain.run.graded:
        return f"{said}."
    right = [name for name, sample in (("speculative", a), ("plain", b)) if sample.verdict == PASSED]
    judged = {0: "neither passes the test", 1: f"only {right[0] if right else ''} passes the test"}
    return f"{said}; {judged.get(len(right), 'both pass the test')}."


def _get_first_s(side: CompletionView) -> float | None:
    return get_finish_time(side.first) if side.first else None
