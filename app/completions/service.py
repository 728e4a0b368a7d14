"""A completion is a run over prompts of its own, so it uses the job rows, queues and workers of runs."""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

from app.completions.admission import admit_completion
from app.completions.models import COMPLETION, CompletionRun
from app.completions.schemas import CompletionSpec
from app.core.context import Context
from app.core.errors import BadInputError, UnavailableError
from app.core.remote import target as remote
from app.datasets.models import Task
from app.datasets.service import LONGEST_NAME, build_task_columns
from app.jobs.work.prepare import prepare_run
from app.language_models.service import require_infilling
from app.runs import enqueue
from app.runs.provenance import TEMPLATE_KWARGS
from app.runs.schemas import DecodingSpec
from app.runs.service import build_run, is_local, require_allowed_models, require_answering, require_models
from evaluation import datasets as evaluation_datasets
from evaluation.datasets import PYTHON

TASK_ID = "prompt"
MAX_HEAD = 2000  # characters at the end of the prompt in which a function's head is looked for
_DEF = re.compile(r"^(?:async\s+)?def\s+([A-Za-z_]\w*)", re.MULTILINE)
_BRACE_FUNCTION = re.compile(
    r"(?:([A-Za-z_]\w*)\s*(?:<[^<>()]*>)?\([^{}]*\)[^{}()]*|(?:const|let|var)\s+(\w+)\s*=[^\n]*)\{\s*$"
)
"""A function in a language with braces: its head ends the prompt."""


def submit(ctx: Context, spec: CompletionSpec, **options: Any) -> uuid.UUID:
    """Stores the completion and enqueues it; `options` as for submit_prompts. Returns its run's id.

    Raises BadInputError, or OverloadedError if too many wait.
    """
    graded = bool(spec.test.strip())
    task = _build_task(spec)
    return submit_prompts(ctx, spec, (task,), name=task.entry_point, graded=graded, n_min=spec.n_min, **options)


def submit_prompts(
    ctx: Context,
    spec: DecodingSpec,
    tasks: tuple[evaluation_datasets.Task, ...],
    *,
    name: str = "",
    graded: bool = False,
    pinned_worker: str | None = None,
    handover: bool = False,
    after_id: uuid.UUID | None = None,
    prefix_cache: bool = True,
    prompt_logprobs: int | None = None,
    top_logprobs: int = 0,
    n_min: int | None = None,
    template_kwargs: Mapping[str, Any] | None = None,
) -> uuid.UUID:
    """Stores a completion of several prompts, all within one budget, which begins now.

    `name` is by default the first line of the first prompt; with `n_min` fewer samples may be decoded under load. The
    completion begins when the one named by `after_id` has ended. `pinned_worker` and `handover` are as for runs,
    `prompt_logprobs` and `top_logprobs` as in decoding.request.Request. The chat template can read `template_kwargs`.

    Raises BadInputError, OverloadedError if too many wait, UnavailableError if the broker cannot be reached.
    """
    if n_min is not None and n_min > spec.n:
        raise BadInputError(f"n_min is {n_min} and n is {spec.n}: give at most n", "n_min")
    is_local_command = is_local(pinned_worker, handover)
    _require_decodable(ctx, spec, tasks, is_local_command=is_local_command)
    is_waited_for = not is_local_command and after_id is None
    if is_waited_for and (fault := ctx.broker.find_fault()):
        raise UnavailableError(f"no worker can be reached because the broker {fault}: try again in a moment")
    prompts = [Task(**build_task_columns(position, task)) for position, task in enumerate(tasks)]
    hashed = json.dumps([asdict(task) for task in tasks])
    with admit_completion(ctx, spec) if is_waited_for else nullcontext():
        completion = build_run(
            CompletionRun,
            spec,
            prompts,
            policy=COMPLETION,
            handover=handover,
            name=name or _derive_name(tasks[0].prompt),
            graded=graded,
            pinned_worker=pinned_worker,
            prefix_cache=prefix_cache and not remote.is_remote(spec.target),
            prompts=prompts,
            prompts_sha256=hashlib.sha256(hashed.encode()).hexdigest(),
            prompt_logprobs=prompt_logprobs,
            top_logprobs=top_logprobs,
            n_min=n_min,
            after_id=after_id,
            provenance={TEMPLATE_KWARGS: json.dumps(template_kwargs)} if template_kwargs else {},
        )
        for job, prompt in zip(completion.tasks, prompts, strict=True):
            job.task = prompt
        with ctx.database.session() as session:
            session.add(completion)
    # Outside the admission lock: a broker that hangs must not block other requests.
    if not handover:
        prepare = enqueue.enqueue_preparation if graded else prepare_run
        prepare(ctx, completion.id)
    return completion.id


def _require_decodable(
    ctx: Context, spec: DecodingSpec, tasks: tuple[evaluation_datasets.Task, ...], *, is_local_command: bool
) -> None:
    if not is_local_command:
        require_allowed_models(ctx, spec.target, spec.drafter)
    require_models(ctx, spec)
    _require_mode(spec, tasks)
    require_answering(ctx, [spec.target], is_local=is_local_command)


def validate_spec(ctx: Context, spec: CompletionSpec) -> None:
    """Raises BadInputError for a model that is not allowed or not known, or for tests without a function to call."""
    require_allowed_models(ctx, spec.target, spec.drafter)
    require_models(ctx, spec)
    _require_mode(spec, (_build_task(spec),))


def find_entry_point(spec: CompletionSpec) -> str:
    """The function under test: the one named, else the last one the prompt defines, else ""."""
    if spec.entry_point:
        return spec.entry_point
    if spec.language == PYTHON:
        return str((_DEF.findall(spec.prompt) or [""])[-1])
    opened = _BRACE_FUNCTION.search(spec.prompt[-MAX_HEAD:])
    return "" if opened is None else opened[1] or opened[2]


def restore_typed_test(task: Task) -> str:
    """The test as it was typed, without the check(candidate) around plain asserts."""
    head = _build_check_header(task.entry_point)
    return textwrap.dedent(task.test.removeprefix(head)).removesuffix("\n") if task.test.startswith(head) else task.test


def _build_task(spec: CompletionSpec) -> evaluation_datasets.Task:
    entry_point = find_entry_point(spec)
    if spec.test.strip() and not entry_point.isidentifier():
        raise BadInputError(
            "entry_point is empty and the prompt defines no function: name the function that the test calls",
            "entry_point",
        )
    if len(entry_point) > LONGEST_NAME:
        raise BadInputError(f"entry_point has {len(entry_point)} characters: give a function's name", "entry_point")
    return evaluation_datasets.Task(
        task_id=TASK_ID,
        prompt=spec.prompt,
        entry_point=entry_point,
        test=_wrap_in_check(spec.test, entry_point),
        canonical_solution="",
        suffix=spec.suffix,
        language=spec.language,
    )


def _require_mode(spec: DecodingSpec, tasks: tuple[evaluation_datasets.Task, ...]) -> None:
    """Raises BadInputError where the mode and a suffix do not go together: before a model is loaded to find that
    out."""
    has_suffix = any(task.suffix is not None for task in tasks)
    if has_suffix and spec.prompt_mode not in ("infill", "auto"):
        raise BadInputError(
            f"suffix is given and prompt_mode is {spec.prompt_mode}: use infill, or leave it out", "suffix"
        )
    if spec.prompt_mode == "infill" and not has_suffix:
        raise BadInputError("prompt_mode is infill and there is no suffix: give one, or use completion", "suffix")
    if has_suffix and spec.prompt_mode == "auto" and not remote.is_remote(spec.target):
        require_infilling(spec.target)


def _build_check_header(entry_point: str) -> str:
    return f"def check(candidate):\n    {entry_point} = candidate\n"


def _wrap_in_check(test: str, entry_point: str) -> str:
    """Plain asserts wrapped into check(candidate), in which the function's name means the candidate."""
    if not test.strip() or re.search(r"^def\s+check\s*\(", test, re.MULTILINE):
        return test
    return _build_check_header(entry_point) + textwrap.indent(textwrap.dedent(test), "    ") + "\n"


def _derive_name(prompt: str) -> str:
    return next((line.strip() for line in prompt.splitlines() if line.strip()), "prompt")[:60]
