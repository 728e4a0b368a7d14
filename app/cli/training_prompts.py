"""What the service gives to a drafter's training: prompts in the evaluation's formats, and texts to exclude."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from app.core.context import Context
from app.datasets import service as datasets
from app.datasets.models import Task
from evaluation import prompting
from evaluation.datasets import Task as PlainTask

if TYPE_CHECKING:
    from decoding.training.collection import PromptBuilder, RenderedPrompt
    from decoding.training.statements import Statement

_MARK = "\N{OBJECT REPLACEMENT CHARACTER}"
_INSTRUCTION_START = "Write a Python function that"


def list_evaluated_texts(ctx: Context) -> list[str]:
    """The prompts, solutions and tests of all tasks of all datasets here, the built-in ones among them."""
    for name in datasets.BUILTIN:
        datasets.require_dataset(ctx, name)
    with ctx.database.read() as session:
        rows = session.execute(select(Task.prompt, Task.canonical_solution, Task.suffix, Task.test))
        return ["".join(part or "" for part in row) for row in rows]


def build_prompt_builder(tokenizer: Any, *, has_chat_template: bool) -> PromptBuilder:
    """How to ask a model: in the chat form that evaluations use, with instructions as messages, or as open code."""
    from decoding.training.collection import PromptBuilder, RenderedPrompt  # noqa: PLC0415 (imports torch)

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
