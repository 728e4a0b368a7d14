"""`bassline complete`."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

import click

from app.commands import common, foreground
from app.complete import service
from app.complete.schemas import CompleteSpec
from app.context import Context
from app.errors import BadInput
from app.events import kinds
from app.events.sse import follow
from app.runs import ending
from app.runs.models import RunTask
from app.runs.render import run_document, sample_document
from app.runs.repository import get_run, tasks_with_samples
from app.samples.models import Sample
from app.states import RunState

DEFAULT_TARGET = "qwen2.5-coder-0.5b"


@click.command()
@click.argument("file", metavar="FILE|-")
@click.option("--target", default=DEFAULT_TARGET, show_default=True, help="model")
@common.decoding_options
@click.option("--test", "test_file", metavar="FILE", help="asserts, or check(candidate): each sample is judged by it")
@click.option("--entry-point", default="", help="function under test; default: the last one the prompt defines")
@common.json_option
def complete(file: str, json_file: str | None, test_file: str | None, **options: Any) -> None:
    """Complete one prompt; samples are printed as they finish, the likeliest last.

    \b
    Example:
        echo 'def add(a, b):' | bassline complete - --n 4 --budget 5
        bassline complete prompt.py --target smollm2-135m --test test_prompt.py
    """
    texts = {"prompt": _read(file), "test": _read(test_file) if test_file else ""}
    spec = common.parse_options(CompleteSpec, {**options, **texts})
    ctx = common.opened_context()
    if spec.test.strip():
        ctx.make_grader()  # refuse before anything is decoded
    console = common.result_console(json_file)
    with foreground.workers(ctx, "complete"):
        run_id = service.submit(ctx, spec, pinned_worker=ctx.worker_name)
        try:
            _stream(ctx, run_id, console)
        except KeyboardInterrupt:
            ending.interrupt(ctx, run_id)
            raise foreground.Interrupted("interrupted: nothing is kept of a completion under way") from None
    with ctx.database.read() as session:
        run, (task,) = get_run(session, run_id), tasks_with_samples(session, run_id)
    samples = [sample_document(task.task.task_id, s) for s in task.samples]
    common.write_json(json_file, {**run_document(run), "samples": samples})
    if run.state is not RunState.FINISHED:
        raise common.failed(run.error or f"the completion ended as {run.state}")
    _summary(console, task)


def _stream(ctx: Context, run_id: uuid.UUID, console: Any) -> None:
    """Prints the text of every sample when it ends."""
    printed: set[int] = set()
    for event in follow(ctx, run_id, beat_s=0.2):
        if event is not None and event.type == kinds.LOADING:
            common.stderr().print(event.data["message"], style="dim", markup=False)
        if event is None or event.type != kinds.TEXT:
            continue
        for sample in event.data["samples"]:
            if sample["finish_reason"] and sample["index"] not in printed:
                printed.add(sample["index"])
                console.rule(
                    f"sample {sample['index']}  {sample['finish_reason']} at {sample['elapsed_s']:.2f} s, "
                    f"{sample['n_tokens']} tokens",
                    align="left",
                )
                console.print(_visible(sample["text"]), markup=False, highlight=False, soft_wrap=True)


def _summary(console: Any, task: RunTask) -> None:
    ranked = sorted(task.samples, key=_likelihood, reverse=True)
    rows = [
        (
            f"sample {s.index}",
            f"mean log-probability {common.number(s.mean_logprob, digits=3)}, {s.finish_reason}"
            + (f", {s.verdict}" if s.verdict else ""),
        )
        for s in ranked
    ]
    console.print(common.pairs("Ranked", rows))


def _likelihood(sample: Sample) -> float:
    return sample.mean_logprob if sample.mean_logprob is not None else float("-inf")


def _visible(text: str) -> str:
    """Model output must not steer the terminal: control characters are shown, not obeyed."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadInput(f"{file} cannot be read: {reason}", "file") from None
