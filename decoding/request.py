"""What goes into the engine and what comes out of it: plain data, no torch.

A *request* asks for n *samples* of one prompt before a deadline; a sample ends for one `FinishReason`; a *round* is
draft, verify, accept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

FinishReason = Literal["stop", "length", "deadline", "cancelled", "error"]
Origin = Literal["draft", "target"]
TopTokens = tuple[tuple[str, float], ...]
"""The most likely tokens at one position, in descending order: (text, log-probability)."""
MAX_TOP_LOGPROBS = 20


class RequestError(ValueError):
    """A request that cannot be honoured; the message names the field and the remedy."""


class BrokenModelError(RuntimeError):
    """The model's output is not a distribution; the request fails, the engine keeps running."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token's distribution is shaped before it is sampled, for target and draft alike."""

    temperature: float = 0.2  # 0 is greedy
    top_p: float = 0.95  # keeps the smallest set of tokens with at least this mass
    top_k: int = 0  # keeps the k most likely tokens; 0: all
    min_p: float = 0.0  # keeps tokens with at least this share of the top token's probability; 0: all

    def __post_init__(self) -> None:
        _require_range("temperature", self.temperature, 0.0, 10.0)
        _require_range("top_p", self.top_p, 0.0, 1.0, open_low=True)
        _require_range("top_k", self.top_k, 0, math.inf)
        _require_range("min_p", self.min_p, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Request:
    """n samples of one prompt. Sample i draws its randomness from (seed, i, token position) alone."""

    prompt: str | tuple[int, ...]  # the text exactly as the model sees it, or its token ids
    n: int = 1
    sampling: SamplingParams = field(default_factory=SamplingParams)
    seed: int = 0
    # wall-clock seconds from the moment the engine accepts the request, tokenization and prefill included; None: no
    # deadline
    budget_s: float | None = None
    max_new_tokens: int = 512
    stop: tuple[str, ...] = ()  # strings that end a sample and are not part of its text
    # prefill the prompt only from where it differs from earlier prompts with this flag: the same texts, sooner
    prefix_cache: bool = False
    # draft from what the engine wrote for earlier requests with this flag, too: the same texts under the coupled rule,
    # in fewer rounds
    earlier_answers: bool = False
    waited_s: float = 0.0  # seconds since a service accepted the request; they count as spent
    # a batch short of time or room may decode fewer samples, the first ones, but at least this many
    n_min: int | None = None
    # the log-probability of each token of the prompt and of this many top tokens at its position; such a prompt is
    # prefilled whole; None: neither
    prompt_logprobs: int | None = None
    top_logprobs: int = 0  # the log-probabilities of this many top tokens at each sampled position

    def __post_init__(self) -> None:
        if not self.prompt:
            raise RequestError("prompt is empty: give at least one character")
        _require_range("prompt_logprobs", self.prompt_logprobs or 0, 0, MAX_TOP_LOGPROBS)
        _require_range("top_logprobs", self.top_logprobs, 0, MAX_TOP_LOGPROBS)
        _require_range("n", self.n, 1, 1024)
        _require_range("max_new_tokens", self.max_new_tokens, 1, math.inf)
        _require_range("seed", self.seed, 0, 2**63 - 1)
        if self.budget_s is not None:
            _require_range("budget", self.budget_s, 0.0, 86_400.0, open_low=True)
        _require_range("waited_s", self.waited_s, 0.0, math.inf)
        if self.n_min is not None:
            _require_range("n_min", self.n_min, 1, self.n)
        if any(not s for s in self.stop):
            raise RequestError("stop holds an empty string: remove it")


@dataclass(slots=True)
class Sample:
    """One completion, finished or not, with its times and counts. Times are seconds since the request was accepted,
    including what it had waited before.
    """

    index: int
    seed: int
    text: str = ""  # without the stop string
    stop_string: str = ""  # the one that ended the sample, if any
    token_ids: list[int] = field(default_factory=list)
    # the target's own log-probabilities of `token_ids`, before temperature and filtering
    logprobs: list[float] = field(default_factory=list)
    # for each token whether the drafter proposed it or the target supplied it (first, correction and bonus tokens)
    origins: list[Origin] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # for each token how many characters `text` had after it
    top_logprobs: list[TopTokens] = field(
        default_factory=list
    )  # one entry for each token, if the request asks for them
    eos_logprob: float | None = None  # of the end-of-sequence token, if that ended the sample
    finish_reason: FinishReason | None = None
    first_token_s: float | None = None
    finished_s: float | None = None
    n_rounds: int = 0
    n_drafted: int = 0
    n_accepted: int = 0

    @property
    def n_tokens(self) -> int:
        """Tokens generated, EOS not counted."""
        return len(self.token_ids)

    @property
    def mean_logprob(self) -> float | None:
        """Mean log-probability per token under the target at temperature 1, the default selector's score."""
        return sum(self.logprobs) / len(self.logprobs) if self.logprobs else None

    @property
    def ms_per_token(self) -> float | None:
        """Milliseconds from the start of the request to this sample's end, per token (BASS, section 4)."""
        if self.finished_s is None or not self.token_ids:
            return None
        return 1000 * self.finished_s / len(self.token_ids)


@dataclass(frozen=True, slots=True)
class PromptToken:
    """A token of a prompt: the text that it adds ("" if it only begins a character), its log-probability under the
    target (None for the first one, which follows nothing), and the most likely tokens at its position."""

    text: str
    logprob: float | None
    top: TopTokens


@dataclass(frozen=True, slots=True)
class Round:
    """One draft-verify-accept round of a request's samples."""

    started_s: float
    n_rows: int  # rows that carried the samples
    n_verified: int  # pending and draft tokens of these rows
    n_emitted: int  # tokens gained over all samples
    drafted: tuple[int, ...]  # draft tokens of each sample
    accepted: tuple[int, ...]  # how many of them were accepted
    draft_s: float
    verify_s: float  # the forward of the target and the acceptance after it
    other_s: float


@dataclass(slots=True)
class Completion:
    """All samples of a request, in index order, and how the time was spent (seconds)."""

    samples: list[Sample]
    n_prompt_tokens: int
    rounds: list[Round]
    prefill_s: float  # from the start of the prefill
    wall_s: float  # from the start of the prefill
    peak_memory_bytes: int | None = None
    cached_tokens: int | None = None  # of the prompt, from the prefix cache; None if unknown, as for another server
    waited_s: float = 0.0  # what the request had waited when its prefill began
    # one entry for each token of the prompt, if the request asks for them and its deadline allows it
    prompt_logprobs: list[PromptToken] | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """How fast the machine was at one moment: seconds of a fixed benchmark step, bytes per second read from memory, and
    floating-point operations per second of a matrix product in the target's dtype."""

    verify_s: float
    read_bytes_per_s: float
    flops_per_s: float


@dataclass(frozen=True, slots=True)
class Update:
    """What one round added to one sample; a live view needs a sequence of these."""

    index: int
    text: str  # the sample's whole text so far
    n_tokens: int
    origins: tuple[Origin, ...]  # of the tokens that this round added
    mean_logprob: float | None
    elapsed_s: float
    finish_reason: FinishReason | None
    ends: tuple[int, ...] = ()  # where in `text` each new token ends


OnUpdate = Callable[[Sequence[Update]], None]
OnBatchUpdate = Callable[[int, Sequence[Update]], None]
"""With the position of the request among those decoded together."""
ShouldCancel = Callable[[], bool]
ShouldCancelRequest = Callable[[int], bool]


def _require_range(name: str, value: float, low: float, high: float, *, open_low: bool = False) -> None:
    above = value > low if open_low else value >= low
    if not (above and value <= high):  # written so that NaN fails
        raise RequestError(
            f"{name} is {value}: it must be {'above' if open_low else 'at least'} {low:g}"
            + (f" and at most {high:g}" if high != math.inf else "")
        )
