"""`bassline drafter`: trained drafters for models."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click
from sqlalchemy import select

from app.background.leases import StopReason
from app.background.work import hold_command
from app.cli import common
from app.cli.progress import Bars, JobBar
from app.core.context import Context, make_context
from app.core.errors import BadInputError, BasslineError
from app.core.terminal import echo
from app.datasets import service as datasets
from app.datasets.models import Task
from app.language_models import heads, service
from evaluation import prompting
from evaluation.datasets import Task as PlainTask

if TYPE_CHECKING:
    from decoding.models.loaded import LoadedModel
    from decoding.models.trained_heads import HeadRecord
    from decoding.training.collection import PromptBuilder, RenderedPrompt
    from decoding.training.statements import Statement

_MARK = "\N{OBJECT REPLACEMENT CHARACTER}"
_INSTRUCTION_START = "Write a Python function that"
target_option = click.option("--target", required=True, metavar="MODEL", help="the model that the drafter is for")


@contextlib.contextmanager
def stop_at_signals(bar: Bars) -> Iterator[threading.Event]:
    """Sets the event at Ctrl-C or SIGTERM, to stop at the next safe point; a second one ends the process now."""
    stopped = threading.Event()

    def stop(number: int, _frame: FrameType | None) -> None:
        stopped.set()
        bar.note("stopping at the next safe point")
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@click.group()
def drafter() -> None:
    """Train, list, check, import and delete drafters: small heads that draft for one model from its hidden states.

    Example:
        bassline drafter train --target qwen2.5-coder-0.5b --hours 1
        bassline eval --target qwen2.5-coder-0.5b --drafter sibling+trained
    """


@drafter.command()
@target_option
@click.option("--hours", type=click.FloatRange(0.01, 1000), help="total hours; 1 if nothing is given")
@click.option("--tokens", type=click.IntRange(1000), help="tokens of text to collect, instead of --hours")
@click.option("--epochs", type=click.IntRange(1, 1000), help="passes over the text, with --tokens")
@click.option("--max-disk", type=click.FloatRange(0.1), default=8.0, show_default=True, metavar="GB")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--restart", is_flag=True, help="start over instead of resuming an interrupted training")
@common.json_option
def train(
    target: str,
    hours: float | None,
    tokens: int | None,
    epochs: int | None,
    max_disk: float,
    seed: int,
    restart: bool,
    json_file: str | None,
) -> None:
    """Collect text of a model with its hidden states, train a drafter on it, and measure its gain.

    The prompts come from the Python files of this machine. Prompts and answers that share ten words in a
    row with a task of any dataset here are dropped. Stopped or killed, the same command resumes.

    Example:
        bassline drafter train --target qwen2.5-coder-0.5b --hours 1
        bassline drafter train --target ./mine --tokens 300000 --epochs 8 --seed 1
    """
    if (tokens is None) != (epochs is None):
        raise BadInputError("--tokens and --epochs belong together: give both, or --hours", "tokens")
    if hours is not None and tokens is not None:
        raise BadInputError("--hours and --tokens were both given: choose one", "hours")
    from decoding.models import fetch  # noqa: PLC0415
    from decoding.request import RequestError  # noqa: PLC0415
    from decoding.training.drafter import DrafterTraining, TrainingStoppedError  # noqa: PLC0415
    from decoding.training.plan import Plan, WorkFolder  # noqa: PLC0415

    ctx = common.open_context()
    service.require_model(target, "target")
    if hours is None and tokens is None:
        hours = 1.0
    try:
        info = fetch.ensure(target)
        work = WorkFolder(target)
        if restart:
            work.remove()
        plan = Plan(target, info.sha256, _read_taps(info.folder), hours, tokens, epochs, seed, int(max_disk * 10**9))
        with (
            JobBar() as bar,
            stop_at_signals(bar) as stopped,
            hold_command(ctx, "train_drafter", target, target, bar.report) as attempt,
        ):
            bar.note(f"uses up to {max_disk:g} GB in {work.path}; only the drafter remains afterwards")
            record = DrafterTraining(
                plan,
                lambda: iterate_statements(seed),
                build_prompt_builder,
                list_evaluated_texts(ctx),
                attempt.report,
                lambda: stopped.is_set() or attempt.lease.stop_reason is StopReason.CANCELLED,
            ).run()
    except TrainingStoppedError:
        raise BasslineError("stopped: the same command resumes") from None
    except RequestError as error:
        raise BadInputError(str(error), "drafter") from None
    _show(record, json_file)
    _publish_in_stack(ctx, target)


@drafter.command("list")
@common.json_option
def list_(json_file: str | None) -> None:
    """The trained drafters of this machine, and the published ones.

    Example:
        bassline drafter list
    """
    ctx = common.open_context()
    with ctx.database.read() as session:
        records = heads.list_drafters(session)
    common.write_json(json_file, [record.model_dump(mode="json") for record in records])
    rows = [
        (
            r.target,
            r.source,
            f"{r.n_parameters / 1e6:.1f} M",
            f"{r.n_bytes / 1e6:.0f} MB",
            f"{r.match[0]:.0%}" if r.match else "-",
            f"{r.hours:.2f}" if r.hours else "-",
        )
        for r in records
    ]
    empty_text = "No drafter was trained here yet: bassline drafter train --target MODEL"
    common.print_list(
        json_file, ("target", "from", "parameters", "size", "first token right", "hours"), rows, empty_text
    )


@drafter.command()
@target_option
@common.json_option
def check(target: str, json_file: str | None) -> None:
    """Read a drafter again, compare its hash and the hash of its model, and measure how often it is right.

    Example:
        bassline drafter check --target qwen2.5-coder-0.5b
    """
    _check_or_import_head(target, None, json_file)


@drafter.command("import")
@click.argument("source", metavar="SOURCE")
@target_option
@common.json_option
def import_(source: str, target: str, json_file: str | None) -> None:
    """Take a DFlash head that was published for a model: a folder, or hf:owner/name[@revision].

    Example:
        bassline drafter import hf:z-lab/Qwen3-4B-DFlash-b16 --target hf:Qwen/Qwen3-4B
    """
    ctx = common.open_context()
    _check_or_import_head(target, source, json_file)
    _publish_in_stack(ctx, target)


@drafter.command()
@target_option
def delete(target: str) -> None:
    """Delete the drafter of a model from the database and from this machine. Results of runs with it stay.

    Example:
        bassline drafter delete --target qwen2.5-coder-0.5b
    """
    heads.delete_head(common.open_context(), target)
    echo(f"deleted the drafter of {target}")


def _publish_in_stack(ctx: Context, target: str) -> None:
    if not ctx.settings.embedded:
        heads.publish_head(ctx, target)


def _check_or_import_head(target: str, source: str | None, json_file: str | None) -> None:
    from decoding.training import importing  # noqa: PLC0415

    make_context()
    service.require_model(target, "target")
    record = importing.import_or_measure_head(
        target,
        source,
        iterate_statements(0),
        build_prompt_builder,
    )
    _show(record, json_file)


def _read_taps(folder: Path) -> tuple[int, ...]:
    from transformers import AutoConfig  # noqa: PLC0415

    from decoding.models.dflash_config import choose_usual_taps  # noqa: PLC0415

    return choose_usual_taps(
        AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config().num_hidden_layers
    )


def _show(record: HeadRecord, json_file: str | None) -> None:
    common.write_json(json_file, dataclasses.asdict(record))
    if json_file == "-":
        return
    echo(f"drafter of {record.target}: {record.n_parameters / 1e6:.1f} M parameters, {record.n_bytes / 1e6:.0f} MB")
    rights = ", ".join(f"{share:.0%}" for share in record.match)
    echo(f"drafted token correct at positions 1 to {len(record.match)}: {rights}")
    if record.speeds:
        plain = {row["batch"]: row["tokens_per_s"] for row in record.speeds if row["drafter"] == "none"}
        speeds = [(row["batch"], row["drafter"], row["tokens_per_s"]) for row in record.speeds]
        rows = [(str(n), name, f"{speed:.0f}", f"{speed / plain[n]:.2f}") for n, name, speed in speeds]
        common.print_list(json_file, ("samples", "drafter", "tokens/s", "vs none"), rows)
    echo(f"use it: bassline eval --target {record.target} --drafter sibling+trained")


def list_evaluated_texts(ctx: Context) -> list[str]:
    """The prompts, solutions and tests of all tasks of all datasets here, the built-in ones among them."""
    for name in datasets.BUILTIN:
        datasets.require_dataset(ctx, name)
    with ctx.database.read() as session:
        rows = session.execute(select(Task.prompt, Task.canonical_solution, Task.suffix, Task.test))
        return ["".join(part or "" for part in row) for row in rows]


def build_prompt_builder(target: LoadedModel) -> PromptBuilder:
    """How to ask a model: in the chat form that evaluations use, with instructions as messages, or as open code."""
    from decoding.training.collection import PromptBuilder, RenderedPrompt  # noqa: PLC0415 (imports torch)

    tokenizer, has_chat_template = target.tokenizer, target.has_chat_template

    def message(text: str) -> str:
        rendered: str = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
        return rendered

    def render(statement: Statement) -> RenderedPrompt:
        if statement.kind == "instruction":
            if has_chat_template:
                return RenderedPrompt(message(statement.text), ())
            return RenderedPrompt(f"# {statement.text}\n", ())
        name = statement.text.partition("def ")[2].partition("(")[0]
        task = PlainTask("", statement.text, name, "", "")
        prompt = prompting.build_prompt(task, "chat" if has_chat_template else "completion")
        if prompt.text is not None:
            return RenderedPrompt(prompt.text, prompt.stop)
        return RenderedPrompt(message((prompt.messages or [{}])[0]["content"]) + prompt.reply_prefix, prompt.stop)

    if not has_chat_template:
        return PromptBuilder(render)
    before = tokenizer.apply_chat_template([{"role": "user", "content": _MARK}], tokenize=False).partition(_MARK)[0]
    return PromptBuilder(render, before + _INSTRUCTION_START, _INSTRUCTION_START)


def iterate_statements(seed: int) -> Iterator[Statement]:
    """The training's prompts, from the Python files of this machine, always in the same order."""
    from decoding.training.statements import generate_statements, list_installed_folders  # noqa: PLC0415

    return generate_statements(list_installed_folders(), seed)
