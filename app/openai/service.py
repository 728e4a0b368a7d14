"""OpenAI's API: each request becomes a run on the interactive queue, its samples the choices."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from app.completions import service as completions
from app.completions import waiting
from app.completions.models import CompletionRun
from app.core.context import Context
from app.core.errors import BadInputError, BasslineError, BusyError, CancelledError, NotFoundError
from app.core.events import event_types
from app.core.events.bus import Event
from app.core.states import RunState
from app.openai.answers import Answers, count_usage, describe_timing
from app.openai.fields import SamplesRequest, StreamOptions
from app.openai.schemas import ChatRequest, CompletionRequest
from app.runs.models import Run, RunTask
from app.runs.repository import get_run, has_task_left_queue, load_tasks_with_logprobs
from app.samples.models import Sample
from app.web.http.disconnect import ClientDisconnected
from app.web.http.problems import to_public_error
from app.web.http.schemas import to_bad_input

CLAIM_TIMEOUT_S = 120.0
FIELDS = {name for asked in (CompletionRequest, ChatRequest) for name in asked.model_fields}
NAMES = {"budget_s": "budget", "target": "model", "prompt_mode": "suffix"}  # ours -> OpenAI's


def submit(ctx: Context, asked: SamplesRequest) -> uuid.UUID:
    """Stores the request as a completion and enqueues it; returns the id of its run. Raises BadInputError."""
    try:
        spec = asked.build_decoding_spec(ctx.settings.completion_budget_s)
        return completions.submit_prompts(
            ctx,
            spec,
            asked.build_tasks(),
            n_min=asked.n_min,
            template_kwargs=asked.template_kwargs,
            **asked.logprob_options,
        )
    except ValidationError as error:
        raise to_bad_input(error) from None


def answer(ctx: Context, run_id: uuid.UUID, answers: Answers, disconnected: ClientDisconnected) -> dict[str, Any]:
    """The completion object, once every sample has ended. `disconnected` says whether the client has disconnected.

    Raises BusyError, BadInputError, ClientDisconnectedError or BasslineError.
    """
    for _ in _follow(ctx, run_id, disconnected):
        pass
    run, tasks = _load_ended(ctx, run_id)
    choices = [
        answers.build_choice(_compute_choice_index(task, sample, run), task, sample)
        for task in tasks
        for sample in task.samples
    ]
    return {
        **answers.build_head(run, streamed=False),
        "choices": choices,
        "usage": count_usage(tasks),
        "bassline": describe_timing(run, tasks),
    }


def stream_frames(
    ctx: Context, run_id: uuid.UUID, answers: Answers, options: StreamOptions, disconnected: ClientDisconnected
) -> Iterator[str]:
    """The same as server-sent events: the new text of each choice, its end, and `[DONE]`; errors as an error object."""
    try:
        yield from _stream_choices(ctx, run_id, answers, options, disconnected)
        yield "data: [DONE]\n\n"
    except BasslineError as error:
        yield _format_frame(build_error_document(error))
    except Exception as error:  # the status is sent already: only an event can still tell the client
        yield _format_frame(build_error_document(to_public_error(error)))


def _stream_choices(
    ctx: Context, run_id: uuid.UUID, answers: Answers, options: StreamOptions, disconnected: ClientDisconnected
) -> Iterator[str]:
    """The frames of all choices, and of the usage if wanted. Raises the error that ended the run early."""
    sent: dict[int, str] = {}  # text of each choice so far
    with ctx.database.read() as session:
        run = get_run(session, run_id)
    head = answers.build_head(run, streamed=True)
    if options.include_usage:
        head["usage"] = None  # in every chunk but the last, as OpenAI's reference says
    for index in range(run.n * run.n_tasks):
        if (first := answers.build_first(index)) is not None:
            yield _format_frame({**head, "choices": [first]})
    for event in _follow(ctx, run_id, disconnected):
        if event is None:
            yield ": waiting\n\n"  # a write is how the server notices that its client has disconnected
        elif event.type == event_types.TEXT:
            for sample in event.data["samples"]:
                index = int(event.data["task_id"].rpartition("/")[2]) * run.n + sample["index"]
                if new := _get_unsent_text(sent, index, sample["text"]):
                    yield _format_frame({**head, "choices": [answers.build_piece(index, new)]})
    run, tasks = _load_ended(ctx, run_id)
    for task in tasks:
        for sample in task.samples:
            index = _compute_choice_index(task, sample, run)
            new = _get_unsent_text(sent, index, sample.raw)
            if sent[index] != sample.raw:
                raise BasslineError("a worker was lost and its text cannot be taken back: ask again")
            yield _format_frame({**head, "choices": [answers.build_last(index, new, sample)]})
    if options.include_usage:
        usage = {"usage": count_usage(tasks), "bassline": describe_timing(run, tasks)}
        yield _format_frame({**head, "choices": [], **usage})


def build_error_document(error: BasslineError) -> dict[str, Any]:
    """An error in OpenAI's shape."""
    field = getattr(error, "field", None)
    if field is None:  # an error of the whole request begins with the name of its field
        word = str(error).split(" ", 1)[0]
        field = word if word in {*FIELDS, *NAMES} else None
    # Fields in a list are named by their index.
    param = NAMES.get(field, field.split(".")[0]) if field else None
    code = "model_not_found" if isinstance(error, BadInputError) and error.field == "target" else error.code
    return format_error(str(error), get_status(error), param, code)


def format_error(message: str | None, status: int, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """The error object of OpenAI's API."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def get_status(error: BasslineError) -> int:
    """OpenAI's status: 404 for an unknown model, 400 for other invalid input."""
    if isinstance(error, BadInputError):
        return NotFoundError.status if error.field == "target" else 400
    return error.status


def _follow(ctx: Context, run_id: uuid.UUID, disconnected: ClientDisconnected) -> Iterator[Event | None]:
    """The run's events to its end, None at times without one. Raises BusyError if no worker takes it."""
    give_up = time.monotonic() + CLAIM_TIMEOUT_S
    for event in waiting.follow_completion(ctx, run_id, disconnected):
        yield event
        if event is None and time.monotonic() > give_up:
            with ctx.database.read() as session:
                if not has_task_left_queue(session, run_id):
                    raise BusyError(f"no worker accepted the prompt within {CLAIM_TIMEOUT_S:g} s: try again later")


def _load_ended(ctx: Context, run_id: uuid.UUID) -> tuple[Run, list[RunTask]]:
    """The run and its tasks in order, samples loaded. Raises the error that ended it early."""
    with ctx.database.read() as session:
        run, tasks = get_run(session, run_id), list(load_tasks_with_logprobs(session, run_id))
        assert isinstance(run, CompletionRun)
        whole = all(len(task.samples) >= (run.n_min or run.n) for task in tasks)
    if run.state is RunState.FINISHED and whole:
        return run, tasks
    failed: Run | RunTask = next((t for t in tasks if t.error), run)
    if run.state is RunState.CANCELLED:
        raise CancelledError("the completion was cancelled on the server: do not send it again")
    error = failed.error or f"the completion ended as {run.state}"
    if run.state is RunState.FAILED and failed.failure is not None and not failed.failure.internal:
        raise BadInputError(error)
    raise BasslineError(error)


def _compute_choice_index(task: RunTask, sample: Sample, run: Run) -> int:
    return task.position * run.n + sample.index


def _get_unsent_text(sent: dict[int, str], index: int, text: str) -> str:
    """The part of a choice's text not sent yet; text only grows, unless another worker started the task again."""
    before = sent.setdefault(index, "")
    if not text.startswith(before):
        return ""
    sent[index] = text
    return text[len(before) :]


def _format_frame(document: dict[str, Any]) -> str:
    return f"data: {json.dumps(document)}\n\n"
