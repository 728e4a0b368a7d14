"""A request that is being decoded: its tokens, its clock, its samples and its rounds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from decoding.limits import MAX_DRAFT_LENGTH
from decoding.models.loaded import LoadedModel
from decoding.request import Completion, FinishReason, Request, RequestError, Round, Sample
from decoding.state.clock import Clock
from decoding.state.memory import peak_memory_bytes


@dataclass(slots=True, eq=False)
class RequestState:
    """A request of a batch, by its `position` among the requests decoded together.

    `prompt` are its token ids, `limit` the most tokens a sample may have; samples start in the order of `waiting`.
    `waited_s` is the time on its clock at which its prefill began.
    """

    position: int
    request: Request
    prompt: list[int]
    limit: int
    clock: Clock
    samples: list[Sample] = field(init=False)
    waiting: deque[Sample] = field(init=False)
    rounds: list[Round] = field(default_factory=list)
    waited_s: float = field(init=False)
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

        Raises RequestError when the prompt does not leave room for one token.
        """
        clock = Clock(request.budget_s, request.waited_s)
        prompt = encode(model, request.prompt)
        room = model.context_length - len(prompt)
        if room < 1:
            raise RequestError(
                f"prompt is {len(prompt)} tokens long and {model.name} can look at {model.context_length}: shorten it"
            )
        return cls(position, request, prompt, min(request.max_new_tokens, room), clock)

    @property
    def capacity(self) -> int:
        """The most cache slots that a row can need: prompt, output, and a rejected draft behind it."""
        return len(self.prompt) + self.limit + MAX_DRAFT_LENGTH + 1

    @property
    def is_done(self) -> bool:
        """Whether every sample has ended."""
        return all(sample.finish_reason is not None for sample in self.samples)

    def finish_waiting(self, reason: FinishReason) -> None:
        """End the samples that were never started."""
        for sample in self.waiting:
            sample.finish_reason, sample.finished_s = reason, self.clock.elapsed
        self.waiting.clear()

    def completion(self, model: LoadedModel) -> Completion:
        """Return the samples, the rounds and the times."""
        return Completion(
            samples=self.samples,
            n_prompt_tokens=len(self.prompt),
            cached_tokens=self.cached_tokens,
            rounds=self.rounds,
            prefill_s=self.prefill_s,
            wall_s=self.clock.elapsed - self.waited_s,
            waited_s=self.waited_s,
            peak_memory_bytes=peak_memory_bytes(model.device),
        )


def encode(model: LoadedModel, text: str) -> list[int]:
    """Return the token ids of a prompt. Raises RequestError if there are none."""
    tokenizer = model.tokenizer
    # A rendered chat already begins with the beginning-of-sequence token; a bare prompt may need it added.
    begun = bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)
    ids: list[int] = tokenizer(text, add_special_tokens=not begun)["input_ids"]
    if not ids:
        raise RequestError("prompt has no tokens: give at least one character the model knows")
    return ids
