"""Log-probabilities in OpenAI's two forms. The target computes them at temperature 1, before top-p.

A token is shown as the text that came with it, "" for one that only begins a character.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

from app.runs.models import RunTask
from app.samples.models import Sample


class Place(NamedTuple):
    """A token, its log-probability (None for the first of a prompt), and the top tokens there, if asked for."""

    text: str
    logprob: float | None
    top: list[Any]


def of_sample(sample: Sample) -> list[Place]:
    """The tokens of a sample."""
    # Text that was held back, since it might have begun a stop string, belongs to the last token.
    ends = [*(sample.ends or [])[:-1], len(sample.raw)] if sample.ends else []
    texts = [sample.raw[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=False)]
    tops = sample.top_logprobs or [[]] * len(texts)
    return [Place(*place) for place in zip(texts, sample.logprobs, tops, strict=True)]


def of_prompt(task: RunTask) -> list[Place]:
    """The tokens of a prompt that was scored."""
    return [Place(*place) for place in task.prompt_logprobs or []]


def for_completion(places: list[Place], *, with_top: bool) -> dict[str, Any]:
    """As /v1/completions shows them; `top_logprobs` holds the chosen token too, and is null without `with_top`."""
    ends = list(accumulate(len(place.text) for place in places))
    return {
        "tokens": [place.text for place in places],
        "token_logprobs": [place.logprob for place in places],
        "top_logprobs": [_by_text(place) for place in places] if with_top else None,
        "text_offset": [0, *ends[:-1]] if places else [],
    }


def for_chat(places: list[Place]) -> dict[str, Any]:
    """As /v1/chat/completions shows them."""
    content = [
        {**_named(place.text, place.logprob), "top_logprobs": [_named(*likely) for likely in place.top]}
        for place in places
    ]
    return {"content": content, "refusal": None}


def _by_text(place: Place) -> dict[str, float] | None:
    if place.logprob is None:
        return None
    found: dict[str, float] = {}
    for text, logprob in (*place.top, (place.text, place.logprob)):
        found.setdefault(text, logprob)  # of two tokens with one text the more likely counts
    return found


def _named(text: str, logprob: float | None) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}
