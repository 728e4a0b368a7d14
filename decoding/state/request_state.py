"""A request that is being decoded: its tokens, its clock, its samples and its rounds."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from decoding.acceptance.sampling import TopIds, compute_given_logprobs
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.models.device import measure_peak_memory
from decoding.models.loaded import LoadedModel
from decoding.request import (
    BrokenModelError,
    Completion,
    FinishReason,
    PromptToken,
    Request,
    RequestError,
    Round,
    Sample,
)
from decoding.state.clock import Clock
from decoding.state.token_text import TokenTexts, check_known, split_into_texts

if TYPE_CHECKING:
    import torch


@dataclass(slots=True, eq=False)
class RequestState:
    """A request of a batch."""

    position: int  # among the requests decoded together
    request: Request
    prompt: list[int]  # token ids
    max_tokens: int  # the most tokens a sample may have
    clock: Clock
    samples: list[Sample] = field(init=False)
    waiting: deque[Sample] = field(init=False)  # samples start in this order
    rounds: list[Round] = field(default_factory=list)
    # log-probabilities of the prompt's tokens from the second on, with the top tokens at their positions
    prompt_scores: list[tuple[float, TopIds]] = field(default_factory=list)
    waited_s: float = field(init=False)  # the time on its clock at which its prefill began
    prefill_s: float = 0.0
    cached_tokens: int = 0

    def __post_init__(self) -> None:
        self.waited_s = self.request.waited_s
        self.samples = [Sample(index=i, seed=self.request.seed) for i in range(self.request.n)]
        self.waiting = deque(self.samples)

    def limit_samples(self, n: int) -> None:
        """Decode the first `n` samples only, if the request allows it; to be called before its first sample starts."""
        if self.request.n_min is not None:
            self.samples = self.samples[: max(n, self.request.n_min)]
            self.waiting = deque(self.samples)

    @classmethod
    def start(cls, position: int, request: Request, model: LoadedModel) -> RequestState:
        """Start the request's clock and tokenize its prompt.

        Raises RequestError when the prompt does not leave room for one token, or holds an invalid token id.
        """
        clock = Clock(request.budget_s, request.waited_s)
        prompt = encode_prompt(model, request.prompt)
        room = model.context_length - len(prompt)
        if room < 1:
            raise RequestError(
                f"prompt is {len(prompt)} tokens long and {model.name} can look at {model.context_length}: shorten it"
            )
        return cls(position, request, prompt, min(request.max_new_tokens, room), clock)

    def restart_clock(self) -> None:
        """Start the clock again: until now the request was held back by others."""
        self.clock = Clock(self.request.budget_s, self.request.waited_s)

    @property
    def capacity(self) -> int:
        """The most cache slots that a row can need: prompt, output, and a rejected draft behind it."""
        return len(self.prompt) + self.max_tokens + MAX_DRAFT_LENGTH + 1

    @property
    def is_done(self) -> bool:
        """Whether every sample has ended."""
        return all(sample.finish_reason is not None for sample in self.samples)

    def record_prompt_scores(self, logits: torch.Tensor) -> None:
        """Take the log-probabilities of the prompt's next tokens from `logits` [N, V].

        Raises BrokenModelError when they are not numbers.
        """
        at = len(self.prompt_scores) + 1
        scores = compute_given_logprobs(logits, self.prompt[at : at + len(logits)], self.request.prompt_logprobs or 0)
        if any(math.isnan(logprob) for logprob, _ in scores):
            raise BrokenModelError("the model computed logits that are not numbers: its weights are broken")
        self.prompt_scores += scores

    def finish_waiting(self, reason: FinishReason) -> None:
        """End the samples that were never started."""
        for sample in self.waiting:
            sample.finish_reason, sample.finished_s = reason, self.clock.elapsed_s
        self.waiting.clear()

    def build_completion(self, model: LoadedModel) -> Completion:
        """Return the samples, the rounds, the times and the log-probabilities of the prompt."""
        return Completion(
            samples=self.samples,
            n_prompt_tokens=len(self.prompt),
            cached_tokens=self.cached_tokens,
            rounds=self.rounds,
            prefill_s=self.prefill_s,
            wall_s=self.clock.elapsed_s - self.waited_s,
            waited_s=self.waited_s,
            peak_memory_bytes=measure_peak_memory(model.device),
            prompt_logprobs=self._collect_prompt_logprobs(model),
        )

    def _collect_prompt_logprobs(self, model: LoadedModel) -> list[PromptToken] | None:
        if self.request.prompt_logprobs is None or len(self.prompt_scores) + 1 < len(self.prompt):
            return None
        texts, names = split_into_texts(model.tokenizer, self.prompt), TokenTexts.get_for_model(model)
        if isinstance(self.request.prompt, str) and not self.request.prompt.startswith(texts[0]):
            texts[0] = ""  # the tokenizer began the sequence: no part of the text
        rest = zip(texts[1:], self.prompt_scores, strict=True)
        return [
            PromptToken(texts[0], None, ()),
            *(PromptToken(text, logprob, names.name_top_tokens(top)) for text, (logprob, top) in rest),
        ]


def encode_prompt(model: LoadedModel, text: str | Sequence[int]) -> list[int]:
    """Return the token ids of a prompt. Raises RequestError if there are none, or one that the model does not know."""
    if not isinstance(text, str):
        check_known(model, text)
        return list(text)
    tokenizer = model.tokenizer
    # A rendered chat already begins with the beginning-of-sequence token; a bare prompt may need it added.
    begun = bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)
    ids: list[int] = tokenizer(text, add_special_tokens=not begun)["input_ids"]
    if not ids:
        raise RequestError("prompt has no tokens: give at least one character the model knows")
    return ids
