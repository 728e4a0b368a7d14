"""What goes into the engine and what comes out of it: plain data, no torch.

The words are those of `docs/glossary.md`: a *request* asks for n *samples* of one prompt before a deadline; a
sample ends for one `FinishReason`; a *round* is draft, verify, accept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

FinishReason = Literal["stop", "length", "deadline", "cancelled", "error"]
Origin = Literal["draft", "target"]
Top = tuple[tuple[str, float], ...]
"""The likeliest tokens of one place, likeliest first: (text, log-probability)."""
MAX_TOP_LOGPROBS = 20


class RequestError(ValueError):
    """A request that cannot be honoured; the message names the field and the remedy."""


class BrokenModelError(RuntimeError):
    """The model's output is no distribution; the request fails, the engine goes on."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token's distribution is shaped before it is sampled, for target and draft alike.

    `temperature` 0 is greedy. `top_p` keeps the smallest set of tokens with at least that mass, `top_k` the k most
    likely (0: all), `min_p` those with at least that share of the likeliest token's probability (0: all).
    """

    temperature: float = 0.2
    top_p: float = 0.95
    top_k: int = 0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        _in_range("temperature", self.temperature, 0.0, 10.0)
        _in_range("top_p", self.top_p, 0.0, 1.0, open_low=True)
        _in_range("top_k", self.top_k, 0, math.inf)
        _in_range("min_p", self.min_p, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Request:
    """n samples of one prompt.

    `prompt` is the text exactly as the model shall see it, or its token ids. `budget_s` is wall-clock seconds from the
    moment the engine takes the request up, tokenization and prefill included; None means no deadline. A service that
    has accepted the request `waited_s` seconds before says so: they count as spent. `stop` holds strings that end a
    sample and are not part of its text. Sample i draws its randomness from (seed, i, token position) alone. With
    `n_min` a batch that is short of time or places may decode fewer samples, the first ones, but no fewer than that.
    With `prefix_cache` the prompt is prefilled only from where it differs from earlier prompts that had it too:
    the same texts, sooner. `prompt_logprobs` asks for the log-probability of each token of the prompt and for that many
    of the likeliest ones in its place (None: for neither; such a prompt is prefilled whole), `top_logprobs` for that
    many of the likeliest tokens in the place of each sampled one.
    """

    prompt: str | tuple[int, ...]
    n: int = 1
    sampling: SamplingParams = field(default_factory=SamplingParams)
    seed: int = 0
    budget_s: float | None = None
    max_new_tokens: int = 512
    stop: tuple[str, ...] = ()
    prefix_cache: bool = False
    waited_s: float = 0.0
    n_min: int | None = None
    prompt_logprobs: int | None = None
    top_logprobs: int = 0

    def __post_init__(self) -> None:
        if not self.prompt:
            raise RequestError("prompt is empty: give at least one character")
        _in_range("prompt_logprobs", self.prompt_logprobs or 0, 0, MAX_TOP_LOGPROBS)
        _in_range("top_logprobs", self.top_logprobs, 0, MAX_TOP_LOGPROBS)
        _in_range("n", self.n, 1, 1024)
        _in_range("max_new_tokens", self.max_new_tokens, 1, math.inf)
        _in_range("seed", self.seed, 0, 2**63 - 1)
        if self.budget_s is not None:
            _in_range("budget", self.budget_s, 0.0, 86_400.0, open_low=True)
        _in_range("waited_s", self.waited_s, 0.0, math.inf)
        if self.n_min is not None:
            _in_range("n_min", self.n_min, 1, self.n)
        if any(not s for s in self.stop):
            raise RequestError("stop holds an empty string: remove it")


@dataclass(slots=True)
class Sample:
    """One completion, finished or not, with the clock and the counts it was made with.

    Times are seconds since the request was accepted: since the engine took it up, and what it had waited before.
    `logprobs` are the target's own log-probabilities (before
    temperature and filtering) of `token_ids`; `mean_logprob` is their mean, None while there are none. `origins` says
    for each token whether the drafter proposed it or the target supplied it (first, correction and bonus tokens),
    `ends` how many characters of `text` there were once it was taken. `top_logprobs` has an entry for each token if the
    request asks for them. `stop_string` is the one that ended the sample, if any did; `text` does not hold it.
    `eos_logprob` is the log-probability of the end-of-sequence token, if that ended it.
    """

    index: int
    seed: int
    text: str = ""
    stop_string: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    top_logprobs: list[Top] = field(default_factory=list)
    eos_logprob: float | None = None
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
    target (None for the first one, which follows nothing), and the likeliest tokens in its place."""

    text: str
    logprob: float | None
    top: Top


@dataclass(frozen=True, slots=True)
class Round:
    """One draft-verify-accept round: of the `drafted[i]` draft tokens of the i-th sample `accepted[i]` stood.

    `n_rows` rows carried the samples, `n_verified` tokens went through the target for them, and `n_emitted` tokens
    were taken over all samples. The rest are seconds: `verify_s` is the target's forward and the acceptance behind it.
    """

    started_s: float
    n_rows: int
    n_verified: int
    n_emitted: int
    drafted: tuple[int, ...]
    accepted: tuple[int, ...]
    draft_s: float
    verify_s: float
    other_s: float


@dataclass(slots=True)
class Completion:
    """All samples of a request, in index order, and how the time went (seconds).

    The request had waited `waited_s` when its prefill began; `prefill_s` and `wall_s` begin there. Of the prompt's
    tokens, `cached_tokens` came from the prefix cache; None if that is not known, as of another server.
    `prompt_logprobs` has an entry for each of them, if the request asks for that and its deadline allows it, else None.
    """

    samples: list[Sample]
    n_prompt_tokens: int
    rounds: list[Round]
    prefill_s: float
    wall_s: float
    peak_memory_bytes: int | None = None
    cached_tokens: int | None = None
    waited_s: float = 0.0
    prompt_logprobs: list[PromptToken] | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """How fast the machine was at one moment: seconds of a fixed verify, bytes per second read from memory, and
    floating-point operations per second of a matrix product in the target's number format."""

    verify_s: float
    read_bytes_per_s: float
    flops_per_s: float


@dataclass(frozen=True, slots=True)
class Update:
    """What one round added to one sample; a sequence of these is what a live view needs.

    `text` is the sample's whole text so far; `origins` are those of its tokens that this round added, and `ends` where
    in `text` each of these ends.
    """

    index: int
    text: str
    n_tokens: int
    origins: tuple[Origin, ...]
    mean_logprob: float | None
    elapsed_s: float
    finish_reason: FinishReason | None
    ends: tuple[int, ...] = ()


OnUpdate = Callable[[Sequence[Update]], None]
OnUpdateOf = Callable[[int, Sequence[Update]], None]
"""With the position of the request among those decoded together."""
ShouldCancel = Callable[[], bool]
ShouldCancelOf = Callable[[int], bool]


def _in_range(name: str, value: float, low: float, high: float, *, open_low: bool = False) -> None:
    above = value > low if open_low else value >= low
    if not (above and value <= high):  # written so that NaN fails
        raise RequestError(
            f"{name} is {value}: it must be {'above' if open_low else 'at least'} {low:g}"
            + (f" and at most {high:g}" if high != math.inf else "")
        )
