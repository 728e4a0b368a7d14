"""Collects training data batch by batch: prompts that are no evaluation tasks, answered by the target."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from decoding.models.errors import ModelError
from decoding.models.loaded import LoadedModel
from decoding.request import Request, SamplingParams
from decoding.state.request_state import encode_prompt
from decoding.training.documents import ShardInfo, Shards
from decoding.training.statements import Statement
from decoding.training.text_recorder import TextRecorder

N_WORDS = 10
_WORD = re.compile(r"\w+")
N_STATEMENTS = 64
N_INVENTED = 32
"""In each shard: statements, and instructions that the target invents for the next one."""
TEMPERATURES = (0.2, 0.8)
LONGEST_PROMPT = 320
LONGEST_ANSWER = 256
_LONGEST_INVENTION = 48
_MOST_RENDERED = 512
"""Statements among which one that fits is looked for."""


class OverlapFilter:
    """Knows the ten-word sequences of all evaluated tasks; case, spaces and punctuation do not count."""

    def __init__(self, tasks: Iterable[str]) -> None:
        """`tasks` are the texts to keep out: prompts, solutions and tests."""
        self._known = {gram for task in tasks for gram in _hash_grams(task)}

    def shares(self, text: str) -> bool:
        """Return whether a text has ten words in a row in common with a task."""
        return any(gram in self._known for gram in _hash_grams(text))


def _hash_grams(text: str) -> Iterator[int]:
    words = [word.lower() for word in _WORD.findall(text)]
    for start in range(len(words) - N_WORDS + 1):
        yield hash(tuple(words[start : start + N_WORDS]))


def compute_largest_shard(target: LoadedModel, taps: Sequence[int]) -> int:
    """Return the bytes that a shard takes at most: states in bfloat16, for texts of the greatest length."""
    width: int = target.model.config.get_text_config().hidden_size
    each = (LONGEST_PROMPT + LONGEST_ANSWER) * len(taps) + LONGEST_ANSWER
    return (N_STATEMENTS + N_INVENTED) * each * 2 * width


class RenderedPrompt(NamedTuple):
    """A statement as the target reads it, and the strings that stop its answer."""

    prompt: str
    stop: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """How a target is asked: `render` makes a prompt of a statement.

    `opening` is the beginning of a user's message that the target is to finish itself; None for a model that was not
    trained to converse. `instruction_start` are its last words, which belong to the instruction.
    """

    render: Callable[[Statement], RenderedPrompt]
    opening: str | None = None
    instruction_start: str = ""


def choose_fitting_prompts(
    target: LoadedModel, prompt_builder: PromptBuilder, statements: Iterable[Statement], n: int, n_answer: int
) -> list[str]:
    """Return the prompts of the first `n` statements that leave the target room for an answer of `n_answer` tokens.

    Raises ModelError if there are none.
    """
    rendered = (prompt_builder.render(statement).prompt for statement in islice(statements, _MOST_RENDERED))
    room = target.context_length - n_answer
    if found := [*islice((prompt for prompt in rendered if len(encode_prompt(target, prompt)) <= room), n)]:
        return found
    raise ModelError(
        f"{target.name} reads {target.context_length} tokens at once, too few for a prompt and an answer to measure a"
        " drafter with: choose another model."
    )


@dataclass
class Collection:
    """Fills shards with what `target` answers to `statements`, which yields the same each time."""

    target: LoadedModel
    taps: Sequence[int]
    shards: Shards
    statements: Callable[[], Iterator[Statement]]
    prompt_builder: PromptBuilder
    overlap: OverlapFilter
    seed: int = 0
    should_stop: Callable[[], bool] = field(default=lambda: False)
    on_tokens: Callable[[int], object] = field(default=lambda _n: None)
    _statements_left: Iterator[Statement] | None = field(default=None, init=False)

    @cached_property
    def _recorder(self) -> TextRecorder:
        return TextRecorder(self.target, self.taps)

    def add_shard(self) -> ShardInfo | None:
        """Collect the next shard and return what it holds; None if it was stopped or no statement is left."""
        started = time.monotonic()
        number = len(self.shards.infos)
        if self._statements_left is None:
            self._statements_left = islice(self.statements(), number * N_STATEMENTS, None)
        own = list(islice(self._statements_left, N_STATEMENTS))
        if not own:
            return None
        invented = self.shards.infos[-1].invented if number else []
        statements = own + [Statement("instruction", text) for text in dict.fromkeys(invented)]
        new = [statement for statement in statements if not self.overlap.shares(statement.text)]
        pairs = [(statement, self._request(f"{number}/{i}", statement)) for i, statement in enumerate(new)]
        asked = [(statement, request) for statement, request in pairs if self._is_short_enough(request)]
        inventing = (
            [self._build_invention(f"{number}/new/{i}") for i in range(N_INVENTED)]
            if self.prompt_builder.opening
            else []
        )
        requests = [*(request for _, request in asked), *inventing]
        done = self._recorder.record(requests, self.on_tokens, self.should_stop)
        if self.should_stop():
            self._statements_left = None  # its statements belong to the next shard
            return None
        answers = done[: len(asked)]
        kept = [
            recording
            for (statement, _), (text, recording) in zip(asked, answers, strict=True)
            if recording is not None and not self.overlap.shares(f"{statement.text}\n{text}")
        ]
        info = ShardInfo(
            n_prompts=len(statements),
            n_tokens=sum(len(recording.outputs) for recording in kept),
            n_documents=len(kept),
            dropped_prompts=len(statements) - len(new),
            dropped_texts=sum(recording is not None for _, recording in answers) - len(kept),
            seconds=time.monotonic() - started,
            invented=[self.prompt_builder.instruction_start + text for text, _ in done[len(asked) :] if text.strip()],
        )
        self.shards.add(kept, info)
        return info

    def _request(self, name: str, statement: Statement) -> Request:
        rendered = self.prompt_builder.render(statement)
        number = self._derive_seed(name)
        temperature = TEMPERATURES[number % len(TEMPERATURES)]
        return Request(
            rendered.prompt,
            sampling=SamplingParams(temperature),
            seed=number,
            max_new_tokens=LONGEST_ANSWER,
            stop=rendered.stop,
        )

    def _build_invention(self, name: str) -> Request:
        assert self.prompt_builder.opening is not None
        return Request(
            self.prompt_builder.opening,
            sampling=SamplingParams(1.0),  # so that they differ
            seed=self._derive_seed(name),
            max_new_tokens=_LONGEST_INVENTION,
            stop=("\n",),
        )

    def _derive_seed(self, name: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self.seed}/{name}".encode()).digest()[:4], "big")

    def _is_short_enough(self, request: Request) -> bool:
        n_tokens = len(encode_prompt(self.target, request.prompt))
        return n_tokens <= LONGEST_PROMPT and n_tokens < self.target.context_length
