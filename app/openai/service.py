"""OpenAI's completions API: each request becomes a run on the interactive queue, its samples the choices."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from app.completions import service as completions
from app.completions import waiting
from app.context import Context
from app.db.types import utcnow
from app.errors import BadInput, BasslineError, Busy, NotFound
from app.events import event_types
from app.events.bus import Event
from app.http.disconnect import Left
from app.http.schemas import bad_input
from app.openai.schemas import CompletionRequest
from app.runs.models import Run, RunTask
from app.runs.repository import get_run
from app.runs.task_repository import any_taken, tasks_with_tokens
from app.samples.models import Sample
from app.states import RunState

TAKE_UP_S = 120.0
NAMES = {"budget_s": "budget", "target": "model"}  # ours -> OpenAI's


def submit(ctx: Context, request: CompletionRequest) -> uuid.UUID:
    """Stores the request as a completion and enqueues it; returns the id of its run. Raises BadInput."""
    try:
        spec = request.decoding(ctx.settings.completion_budget_s)
        return completions.submit_prompts(ctx, spec, request.tasks())
    except ValidationError as error:
        raise bad_input(error) from None


def answer(ctx: Context, run_id: uuid.UUID, request: CompletionRequest, left: Left) -> dict[str, Any]:
    """The completion object, once every sample has ended. `left` says whether the client has disconnected.

    Raises Busy, BadInput, ClientLeft or BasslineError.
    """
    for _ in _follow(ctx, run_id, left):
        pass
    run, tasks = _ended(ctx, run_id)
    choices = [
        _choice(_index(task, sample, run), sample.raw, sample, request) for task in tasks for sample in task.samples
    ]
    return {**_head(run, request), "choices": choices, "usage": _usage(tasks), "bassline": _timing(run, tasks)}


def frames(ctx: Context, run_id: uuid.UUID, request: CompletionRequest, left: Left) -> Iterator[str]:
    """The same as server-sent events: the new text of each choice, its end, and `[DONE]`; errors as an error object."""
    sent: dict[int, str] = {}
    try:
        with ctx.database.read() as session:
            head = _head(get_run(session, run_id), request)
        for event in _follow(ctx, run_id, left):
            if event is None:
                yield ": waiting\n\n"  # a write is how the server notices that its client has disconnected
            elif event.type == event_types.TEXT:
                for sample in event.data["samples"]:
                    index = int(event.data["task_id"].rpartition("/")[2]) * request.n + sample["index"]
                    if new := _new(sent, index, sample["text"]):
                        yield _frame({**head, "choices": [_choice(index, new)]})
        run, tasks = _ended(ctx, run_id)
        for task in tasks:
            for sample in task.samples:
                index = _index(task, sample, run)
                new = _new(sent, index, sample.raw)
                if sent[index] != sample.raw:
                    raise BasslineError("a worker was lost and its text cannot be taken back: ask again")
                yield _frame({**head, "choices": [_choice(index, new, sample, request)]})
        if request.stream_options.include_usage:
            yield _frame({**head, "choices": [], "usage": _usage(tasks), "bassline": _timing(run, tasks)})
        yield "data: [DONE]\n\n"
    except BasslineError as error:
        yield _frame(error_document(error))


def error_document(error: BasslineError) -> dict[str, Any]:
    """An error in OpenAI's shape."""
    kind = "invalid_request_error" if status_of(error) < 500 else "server_error"
    field = getattr(error, "field", None)
    if field is None:  # an error of the whole request begins with the name of its field
        word = str(error).split(" ", 1)[0]
        field = word if word in {*CompletionRequest.model_fields, *NAMES} else None
    # Fields in a list are named by their index.
    param = NAMES.get(field, field.split(".")[0]) if field else None
    code = "model_not_found" if status_of(error) == NotFound.status else error.code
    return {"error": {"message": str(error), "type": kind, "param": param, "code": code}}


def status_of(error: BasslineError) -> int:
    """OpenAI's status: 404 for an unknown model, 400 for other invalid input."""
    if isinstance(error, BadInput):
        return NotFound.status if error.field == "target" else 400
    return error.status


def _follow(ctx: Context, run_id: uuid.UUID, left: Left) -> Iterator[Event | None]:
    """The run's events to its end, None every second without one. Raises Busy if no worker takes it."""
    give_up = time.monotonic() + TAKE_UP_S
    for event in waiting.wait(ctx, run_id, left):
        yield event
        if event is None and time.monotonic() > give_up and not _is_taken(ctx, run_id):
            raise Busy(f"no worker took the prompt up within {TAKE_UP_S:g} seconds: try again later")


def _is_taken(ctx: Context, run_id: uuid.UUID) -> bool:
    with ctx.database.read() as session:
        return any_taken(session, run_id)


def _ended(ctx: Context, run_id: uuid.UUID) -> tuple[Run, list[RunTask]]:
    """The run and its tasks in order, samples loaded. Raises the error that ended it early."""
    with ctx.database.read() as session:
        run, tasks = get_run(session, run_id), list(tasks_with_tokens(session, run_id))
        whole = all(len(task.samples) >= (run.n_min or run.n) for task in tasks)
    if run.state is RunState.FINISHED and whole:
        return run, tasks
    failed: Run | RunTask = next((t for t in tasks if t.error), run)
    error = failed.error or f"the completion ended as {run.state}"
    if run.state is RunState.FAILED and failed.failure is not None and not failed.failure.internal:
        raise BadInput(error)
    raise BasslineError(error)


def _head(run: Run, request: CompletionRequest) -> dict[str, Any]:
    return {
        "id": f"cmpl-{run.id.hex}",
        "object": "text_completion",
        "created": int((run.created_at or utcnow()).timestamp()),
        "model": request.model,
    }


def _choice(
    index: int, text: str, sample: Sample | None = None, request: CompletionRequest | None = None
) -> dict[str, Any]:
    """A choice, or a piece of one; `sample` is given with the last piece."""
    choice: dict[str, Any] = {"index": index, "text": text, "logprobs": None, "finish_reason": None}
    if sample is None or request is None:
        return choice
    choice["finish_reason"] = "stop" if sample.finish_reason == "stop" else "length"
    choice["bassline"] = {
        "finish_reason": sample.finish_reason,
        "finished_s": sample.finished_s,
        "mean_logprob": sample.mean_logprob,
    }
    if request.logprobs is not None:
        choice["logprobs"] = _logprobs(sample)
    return choice


def _logprobs(sample: Sample) -> dict[str, Any]:
    """Of the chosen tokens, under the target at temperature 1; the alternatives are not kept.

    A token is the part of the text that came with it, nothing for one that only begins a character.
    """
    # Text that was held back, since it might have begun a stop string, belongs to the last token.
    ends = [*(sample.ends or [])[:-1], len(sample.raw)] if sample.ends else []
    starts = [0, *ends[:-1]] if ends else []
    return {
        "tokens": [sample.raw[start:end] for start, end in zip(starts, ends, strict=True)],
        "token_logprobs": sample.logprobs,
        "top_logprobs": None,
        "text_offset": starts,
    }


def _index(task: RunTask, sample: Sample, run: Run) -> int:
    return task.position * run.n + sample.index


def _new(sent: dict[int, str], index: int, text: str) -> str:
    """The part of a choice's text not sent yet; text only grows, unless another worker started the task again."""
    before = sent.setdefault(index, "")
    if not text.startswith(before):
        return ""
    sent[index] = text
    return text[len(before) :]


def _usage(tasks: list[RunTask]) -> dict[str, Any]:
    prompt = sum(t.n_prompt_tokens or 0 for t in tasks)
    completion = sum(s.n_tokens for t in tasks for s in t.samples)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(t.cached_tokens or 0 for t in tasks)},
    }


def _timing(run: Run, tasks: list[RunTask]) -> dict[str, Any]:
    """The id of the run, and for each prompt the seconds of waiting and of decoding."""
    return {"run": str(run.id), "queue_s": [t.queue_s for t in tasks], "wall_s": [t.wall_s for t in tasks]}


def _frame(document: dict[str, Any]) -> str:
    return f"data: {json.dumps(document)}\n\n"
