"""How much sooner the first token comes when a prompt begins with tokens of the prompt before."""

from __future__ import annotations

from decoding.engine import Engine
from decoding.request import Request

SHARED = 512
OWN = 32
REPEATS = 6


def first_token_ratios(engine: Engine) -> list[float]:
    """Return the time to the first token of a second request over the first one's, of REPEATS pairs.

    Their prompts share SHARED tokens and end with OWN others.
    """
    ratios = []
    for repeat in range(REPEATS):
        shared = _text(engine, SHARED, 7919 * (repeat + 1))
        first, second = (
            _first_token_s(engine, shared + _text(engine, OWN, 104729 * (2 * repeat + which + 1))) for which in (0, 1)
        )
        ratios.append(second / first)
    return ratios


def _text(engine: Engine, n_tokens: int, seed: int) -> str:
    """Words that are tokens of their own, so that joined texts have joined tokens."""
    tokenizer = engine.target.tokenizer
    words = [word for word in ("def", "return", "import", "class", "for", "while", "print", "list", "value", "name")
             if len(tokenizer(" " + word, add_special_tokens=False)["input_ids"]) == 1]  # fmt: skip
    return "".join(" " + words[(seed * (place + 1) >> 3) % len(words)] for place in range(n_tokens))


def _first_token_s(engine: Engine, prompt: str) -> float:
    (sample,) = engine.generate(Request(prompt, n=1, max_new_tokens=4, prefix_cache=True)).samples
    assert sample.first_token_s is not None
    return sample.first_token_s
