"""Another engine: a server on this machine that speaks OpenAI's /v1/completions."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import openai

from benchmarks._speed import TOP_P, Speed

CONNECT_S, LONGEST_S = 5.0, 600.0


@dataclass(slots=True)
class _Heard:
    """The content of one stream: its tokens, when its first choice finished, and which choices there were."""

    tokens: int
    first_s: float
    choices: set[int]


class Endpoint:
    """A server, asked for n samples in one request if it makes them, else in n requests at once."""

    def __init__(self, model: str, base_url: str) -> None:
        """Raises openai.OpenAIError if the server does not answer."""
        self._model = model
        self._client = openai.OpenAI(
            base_url=base_url, api_key="none", max_retries=0, timeout=openai.Timeout(LONGEST_S, connect=CONNECT_S)
        )
        self._takes_n = len(self._stream("def add(a, b):\n", 2, 0, 0.2, 4).choices) == 2

    def run(self, prompt: str, n: int, temperature: float, max_tokens: int) -> Speed:
        """Decode n samples of one prompt."""
        started = time.perf_counter()
        if self._takes_n or n == 1:
            streams = [self._stream(prompt, n, 0, temperature, max_tokens)]
        else:
            with ThreadPoolExecutor(n) as pool:
                streams = list(pool.map(lambda seed: self._stream(prompt, 1, seed, temperature, max_tokens), range(n)))
        seconds = time.perf_counter() - started
        return Speed(sum(heard.tokens for heard in streams), seconds, first_s=min(heard.first_s for heard in streams))

    def _stream(self, prompt: str, n: int, seed: int, temperature: float, max_tokens: int) -> _Heard:
        """Raises openai.OpenAIError."""
        started = time.perf_counter()
        pieces, choices = 0, set[int]()
        # OpenAI and vLLM count all choices in a last chunk without any; llama.cpp counts each choice where it ends.
        of_all: int | None = None
        of_each: dict[int, int] = {}
        first_s: float | None = None
        for chunk in self._client.completions.create(
            model=self._model,
            prompt=prompt,
            n=n,
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=TOP_P,
            seed=seed,
            stream=True,
            stream_options={"include_usage": True},
        ):
            if chunk.usage is not None and chunk.choices:
                of_each[chunk.choices[0].index] = chunk.usage.completion_tokens
            elif chunk.usage is not None:
                of_all = chunk.usage.completion_tokens
            for choice in chunk.choices:
                choices.add(choice.index)
                pieces += bool(choice.text)
                if choice.finish_reason is not None and first_s is None:
                    first_s = time.perf_counter() - started
        # Without a count, a piece of text is taken for a token; it may be more.
        return _Heard(of_all or sum(of_each.values()) or pieces, first_s or time.perf_counter() - started, choices)
