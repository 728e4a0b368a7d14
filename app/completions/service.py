"""A completion is a run over a dataset that holds only its prompt, so it uses the rows, queues and workers of runs."""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
import uuid
from contextlib import nullcontext
from dataclasses import asdict

from sqlalchemy.exc import IntegrityError

from app.completions.admission import admitted
from app.completions.schemas import CompletionSpec
from app.context import Context
from app.datasets import service as datasets
from app.datasets.models import Task
from app.errors import BadInputError
from app.jobs.work.prepare import prepare_run
from app.language_models.service import require_infilling
from app.remote import target as remote
from app.runs.schemas import DecodingSpec
from app.runs.service import is_local, new_run, require_allowed, require_models, store
from app.states import DatasetKind
from evaluation import datasets as files

TASK_ID = "prompt"
NAME = "prompt"
LONGEST_NAME = 200
_DEF = re.compile(r"^(?:async\s+)?def\s+([A-Za-z_]\w*)", re.MULTILINE)


def submit(
    ctx: Context,
    spec: CompletionSpec,
    *,
    pinned_worker: str | None = None,
    handover: bool = False,
    after_id: uuid.UUID | None = None,
    prefix_cache: bool = True,
) -> uuid.UUID:
    """Stores the completion and enqueues it; `handover` and `after_id` as for runs. Returns its run's id.

    An editor sends nearly the same file again and again, so a completion uses the prefix cache, unless `prefix_cache`
    says that it must not. Raises BadInputError, or OverloadedError if too many wait.
    """
    graded = bool(spec.test.strip())
    return submit_prompts(
        ctx,
        spec,
        (_task(spec),),
        name=entry_point_of(spec),
        graded=graded,
        pinned_worker=pinned_worker,
        handover=handover,
        after_id=after_id,
        prefix_cache=prefix_cache,
        n_min=spec.n_min,
    )


def submit_prompts(
    ctx: Context,
    spec: DecodingSpec,
    tasks: tuple[files.Task, ...],
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
) -> uuid.UUID:
    """Stores a completion of several prompts, all within one budget, which begins now.

    `name` is by default the first line of the first prompt; with `n_min` fewer samples may be decoded under load. See
    submit; `prompt_logprobs` and `top_logprobs` mean the same as in decoding.request.Request.
    """
    if not is_local(pinned_worker, handover):
        require_allowed(ctx, spec.target, spec.drafter)
    require_models(ctx, spec)
    _require_mode(spec, tasks)
    is_waited_for = not is_local(pinned_worker, handover) and after_id is None
    content = json.dumps([asdict(task) for task in tasks])
    plain = files.Dataset(NAME, tasks, hashlib.sha256(content.encode()).hexdigest())
    with admitted(ctx, spec, tasks) if is_waited_for else nullcontext():
        for last_try in (False, True):
            dataset = datasets.store(ctx, plain, DatasetKind.PROMPT)
            with ctx.database.read() as session:
                stored = list(session.merge(dataset, load=True).tasks)
            try:
                run = new_run(
                    spec,
                    dataset.id,
                    stored,
                    name=name or _name_of(tasks[0].prompt),
                    command="",
                    is_completion=True,
                    pinned_worker=pinned_worker,
                    graded=graded,
                    handover=handover,
                    after_id=after_id,
                )
                run.prefix_cache = prefix_cache and not remote.is_remote(spec.target)
                run.prompt_logprobs, run.top_logprobs = prompt_logprobs, top_logprobs
                run.n_min = n_min
                store(ctx, run)
                if not graded and not handover:
                    prepare_run(ctx, run.id)
                return run.id
            except IntegrityError:  # the dataset of the same prompt was deleted between the two transactions
                if last_try:
                    raise
    raise AssertionError("the second try returns or raises")


def check(ctx: Context, spec: CompletionSpec) -> None:
    """Raises BadInputError for a model that is not allowed or not known, or for tests without a function to call."""
    require_allowed(ctx, spec.target, spec.drafter)
    require_models(ctx, spec)
    _require_mode(spec, (_task(spec),))


def entry_point_of(spec: CompletionSpec) -> str:
    """The function under test: the one named, else the last one the prompt defines, else ""."""
    return spec.entry_point or (_DEF.findall(spec.prompt) or [""])[-1]


def typed_test(task: Task) -> str:
    """The test as it was typed, without the check(candidate) around plain asserts."""
    head = _head(task.entry_point)
    return textwrap.dedent(task.test.removeprefix(head)).removesuffix("\n") if task.test.startswith(head) else task.test


def _task(spec: CompletionSpec) -> files.Task:
    entry_point = entry_point_of(spec)
    if spec.test.strip() and not entry_point.isidentifier():
        raise BadInputError(
            "entry_point is empty and the prompt defines no function: name the function that the test calls",
            "entry_point",
        )
    if len(entry_point) > LONGEST_NAME:
        raise BadInputError(f"entry_point has {len(entry_point)} characters: give a function's name", "entry_point")
    return files.Task(
        task_id=TASK_ID,
        prompt=spec.prompt,
        entry_point=entry_point,
        test=_as_check(spec.test, entry_point),
        canonical_solution="",
        suffix=spec.suffix,
    )


def _require_mode(spec: DecodingSpec, tasks: tuple[files.Task, ...]) -> None:
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


def _head(entry_point: str) -> str:
    return f"def check(candidate):\n    {entry_point} = candidate\n"


def _as_check(test: str, entry_point: str) -> str:
    """Plain asserts wrapped into check(candidate), in which the function's name means the candidate."""
    if not test.strip() or re.search(r"^def\s+check\s*\(", test, re.MULTILINE):
        return test
    return _head(entry_point) + textwrap.indent(textwrap.dedent(test), "    ") + "\n"


def _name_of(prompt: str) -> str:
    return next((line.strip() for line in prompt.splitlines() if line.strip()), "prompt")[:60]
