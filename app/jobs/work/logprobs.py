"""Log-probabilities as JSON columns hold them: rounded, and without characters that no database stores."""

from __future__ import annotations

from typing import Any

from app.core.db.storable import storable
from decoding.request import Completion, Sample, Top

DECIMALS = 5


def of_prompt(completion: Completion) -> list[Any] | None:
    """[text, log-probability, top tokens] of each token of the prompt; None if they were not computed."""
    if completion.prompt_logprobs is None:
        return None
    return [
        [storable(token.text), None if token.logprob is None else rounded(token.logprob), _top(token.top)]
        for token in completion.prompt_logprobs
    ]


def of_sample(sample: Sample) -> list[Any] | None:
    """The top-k tokens at the position of each token; None if nobody asked for them."""
    return [_top(top) for top in sample.top_logprobs] or None


def rounded(logprob: float) -> float:
    """The precision in which log-probabilities are stored."""
    return round(logprob, DECIMALS)


def _top(top: Top) -> list[list[Any]]:
    return [[storable(text), rounded(logprob)] for text, logprob in top]
