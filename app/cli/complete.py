"""`bassline complete`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
from rich.console import Console

from app.cli import common, foreground
from app.cli.options import add_spec_options, parse_options
from app.completions import service
from app.completions.schemas import CompletionSpec
from app.core.errors import BasslineError
from app.core.events import event_types
from app.core.events.bus import Event
from app.core.states import RunState
from app.core.terminal import open_stderr
from app.runs import transitions
from app.runs.documents import dump_run, dump_sample
from app.runs.event_stream import follow_events
from app.runs.models import RunTask
from app.runs.repository import get_run, load_tasks_with_samples
from evaluation.metrics import build_rank_key

SAMPLE_FIELDS = ("index", "finish_reason", "elapsed_s", "n_tokens", "text")
DEFAULT_TARGET = "qwen2.5-coder-0.5b"


@click.command()
@click.argument("file", metavar="FILE|-")
@add_spec_options(CompletionSpec, target={"required": False, "default": DEFAULT_TARGET, "show_default": True})
@click.option("--test", "test_file", metavar="FILE", help="asserts, or check(candidate): each sample is judged by it")
@add_spec_options(CompletionSpec, "language", "entry_point")
@common.json_option
def complete(file: str, json_file: str | None, test_file: str | None, **options: Any) -> None:
    """Complete one prompt; samples are printed as they finish, and ranked at the end.

    Example:
        echo 'def add(a, b):' | bassline complete - --n 4 --budget 5
        bassline complete prompt.py --target smollm2-135m --test test_prompt.py
    """
    texts = {"prompt": common.read_text(file), "test": common.read_text(test_file) if test_file else ""}
    spec = parse_options(CompletionSpec, {**options, **texts})
    ctx = common.open_context()
    if spec.test.strip():
        ctx.make_grader()  # without a sandbox, fail before decoding
    console = common.choose_console(json_file)
    printed: set[int] = set()
    with foreground.hold_workers(ctx, "complete") as site:
        spec = foreground.prepare_for_server(ctx, spec) if site.server else spec
        run_id = service.submit(ctx, spec, **site.options)
        try:
            if site.server:  # which does not stream its texts to this process
                site.follow(run_id)
            else:
                printed = _print_finished_samples(follow_events(ctx, run_id, beat_s=0.2), console)
        except KeyboardInterrupt:
            transitions.interrupt(ctx, run_id)
            raise foreground.UserInterruptError("interrupted: an unfinished completion is not kept") from None
    with ctx.database.read() as session:
        run, (task,) = get_run(session, run_id), load_tasks_with_samples(session, run_id)
    samples = [dump_sample(task.task.task_id, s) for s in task.samples]
    common.write_json(json_file, {**dump_run(run), "samples": samples})
    if run.state is not RunState.FINISHED:
        raise BasslineError(run.error or f"the completion ended as {run.state}")
    for s in task.samples:
        if s.index not in printed:
            _print_sample(console, s.index, s.finish_reason, s.finished_s or run.budget_s, s.n_tokens, s.raw)
    _print_summary(console, task)


def _print_finished_samples(events: Iterable[Event | None], console: Console) -> set[int]:
    """Prints the text of every sample when it ends. Returns the indices of those printed."""
    printed: set[int] = set()
    for event in events:
        if event is not None and event.type == event_types.LOADING:
            open_stderr().print(event.data["message"], style="dim")
        if event is None or event.type != event_types.TEXT:
            continue
        for sample in event.data["samples"]:
            if sample["finish_reason"] and sample["index"] not in printed:
                printed.add(sample["index"])
                _print_sample(console, *(sample[field] for field in SAMPLE_FIELDS))
    return printed


def _print_sample(console: Console, index: int, finish_reason: str, elapsed_s: float, n_tokens: int, text: str) -> None:
    console.rule(f"sample {index}  {finish_reason} at {elapsed_s:.2f} s, {n_tokens} tokens", align="left")
    console.print(text, soft_wrap=True)


def _print_summary(console: Console, task: RunTask) -> None:
    ranked = sorted(task.samples, key=lambda s: build_rank_key(s.mean_logprob, s.index), reverse=True)
    rows = [
        (
            f"sample {s.index}",
            f"mean log-probability {common.format_number(s.mean_logprob, digits=3)}, {s.finish_reason}"
            + (f", {s.verdict}" if s.verdict else ""),
        )
        for s in ranked
    ]
    console.print(common.build_pairs("Ranked", rows))
