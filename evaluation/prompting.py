"""Prompts: a task as input of a model, in one of four versioned modes, and the strings that stop its answer.

- `completion`: the prompt's bytes unchanged; one newline less moves scores by tens of points. For base models.
- `chat`: one instruction, the prompt in a fenced block, and the reply opened with a fence, so that the answer
  starts with code. For instruct models.
- `raw`: the prompt's bytes, messages or token ids, stopped by the task's stop strings alone. For callers who choose
  both.
- `infill`: the text before and after the gap, in the model's fill-in-the-middle tokens.

In another language than Python, instruction, fence and stops are its own, and the version names it. A change of a text
or stop list below needs a new version, so that stored runs keep their meaning.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from evaluation.datasets import PYTHON, Task
from evaluation.languages import registry
from evaluation.source import is_definition_of, parse_open

Mode = Literal["completion", "chat", "infill", "raw"]
MODES: tuple[Mode, ...] = get_args(Mode)
VERSIONS: dict[Mode, str] = {"completion": "completion-1", "chat": "chat-1", "infill": "infill-1", "raw": "raw-1"}

INSTRUCTION = (
    "Complete the following {0} code. "
    "Reply with the complete code, imports included, in one {0} code block and nothing else."
)
REPLY_PREFIX = "```{}\n"

BLOCK_STOP = tuple(f"\n{c}" for c in string.printable if c not in string.whitespace + "#)]}")
"""Stops for a prompt that leaves a function open: the first unindented line that is not blank. A comment and
a closing bracket at column 0 do not end a block in Python, so they do not stop either."""

PROGRAM_STOP = ("\nassert ", "\nprint(", "\nif __name__", '\n"""', "\n```")
"""Stops for a prompt without an open function (MBPP): the answer is unindented, these tend to follow it."""

CHAT_STOP = ("\n```",)
"""The closing fence. The task's stops do not apply: a chat answer may start with imports and helpers."""


class PromptError(ValueError):
    """A task that does not fit the mode asked for; the message names the remedy."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The input of a model: a text, token ids, or messages followed by `reply_prefix` in its chat template."""

    mode: Mode
    version: str
    text: str | None
    messages: list[dict[str, str]] | None
    reply_prefix: str
    stop: tuple[str, ...]  # a sample ends at the first of these
    token_ids: tuple[int, ...] | None = None


class InfillFormat(Protocol):
    """How a model is asked to fill a gap: decoding/models/infilling.py lists the formats."""

    @property
    def markers(self) -> tuple[str, ...]:
        """The tokens around prefix and suffix, at which an answer ends."""

    def render(self, prefix: str, suffix: str) -> str:
        """The prompt for the gap between two texts."""


def build_prompt(task: Task, mode: Mode, infill_format: InfillFormat | None = None) -> Prompt:
    """The prompt of a task. `infill_format` is the model's, used in infill mode only.

    Raises PromptError for an unknown mode, a task without suffix in infill mode or with one in another mode,
    and a model without infilling tokens.
    """
    if mode not in MODES:
        raise PromptError(f"mode is {mode!r}: choose one of {', '.join(MODES)}")
    by_language = task.language != PYTHON and mode in ("completion", "chat")
    version = f"{VERSIONS[mode]}-{task.language}" if by_language else VERSIONS[mode]
    if mode == "infill":
        return _build_infill(task, infill_format)
    if task.suffix is not None:
        raise PromptError(f"task {task.task_id} has a suffix to be met: use mode infill")
    if mode == "chat":
        return Prompt(
            mode, version, None, _build_messages(task), REPLY_PREFIX.format(_get_fence_language(task)), CHAT_STOP
        )
    if mode == "raw":
        messages = list(task.messages) if task.messages is not None else None
        text = task.prompt if messages is None and task.prompt_token_ids is None else None
        return Prompt(mode, version, text, messages, "", task.stop, task.prompt_token_ids)
    if task.language != PYTHON:
        stop = registry.load_language(task.language).STOP
    else:
        stop = BLOCK_STOP if is_opening_entry_point(task) else PROGRAM_STOP
    return Prompt(mode, version, task.prompt, None, "", _join_stops(stop, task.stop))


def _get_fence_language(task: Task) -> str:
    """The name after the fence of a block in the task's language."""
    return PYTHON if task.language == PYTHON else registry.load_language(task.language).FENCES[0]


def is_opening_entry_point(task: Task) -> bool:
    """Whether the prompt defines the function to complete, at least its head, so that an answer may be a body alone."""
    tree = parse_open(task.prompt)
    return tree is not None and any(is_definition_of(node, task.entry_point) for node in tree.body)


def _build_messages(task: Task) -> list[dict[str, str]]:
    fence = "````" if "```" in task.prompt else "```"
    instruction = INSTRUCTION.format(registry.LABELS[task.language])
    return [
        {
            "role": "user",
            "content": f"{instruction}\n\n{fence}{_get_fence_language(task)}\n{task.prompt.rstrip()}\n{fence}",
        }
    ]


def _build_infill(task: Task, infill_format: InfillFormat | None) -> Prompt:
    if task.suffix is None:
        raise PromptError(f"task {task.task_id} has no suffix: use mode completion or chat")
    if infill_format is None:
        raise PromptError("the model has no fill-in-the-middle tokens: use another model for mode infill")
    text = infill_format.render(task.prompt, task.suffix)
    return Prompt("infill", VERSIONS["infill"], text, None, "", _join_stops(infill_format.markers, task.stop))


def _join_stops(*lists: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stop for stops in lists for stop in stops))
