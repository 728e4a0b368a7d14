"""Log-probabilities as JSON columns hold them: rounded, and without characters that no database stores."""

from __future__ import annotations

from typing import Any

from app.core.db.storable import make_storable
from decoding.request import Completion, Sample, TopTokens

DECIMALS = 5


def encode_prompt_logprobs(completion: Completion) -> list[Any] | None:
    """[text, log-probability, top tokens] of each token of the prompt; None if they were not computed."""
    if completion.prompt_logprobs is None:
        return None
    return [
        [
            make_storable(token.text),
            None if token.logprob is None else round_logprob(token.logprob),
            _encode_top(token.top),
        ]
        for token in completion.prompt_logprobs
    ]


def encode_sample_logprobs(sample: Sample) -> list[Any] | None:
    """The top-k tokens at the position of each token; None if nobody asked for them."""
    return [_encode_top(top) for top in sample.top_logprobs] or None


def round_logprob(logprob: float) -> float:
    """The precision in which log-probabilities are stored."""
    return round(logprob, DECIMALS)


def _encode_top(top: TopTokens) -> list[list[Any]]:
    return [[make_storable(text), round_logprob(logprob)] for text, logprob in top]
