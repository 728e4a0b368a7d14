"""Other engines: servers on this machine that speak OpenAI's /v1/completions, and OpenVINO GenAI in this process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from app.core.remote.chunks import RemoteServerError
from app.core.remote.connection import BusyWait, ServerConnection, run_in_own_loop
from app.core.remote.profile import ServerProfile, probe_server
from app.core.remote.target import COMPLETIONS_PATH, RemoteTarget
from benchmarks._arms import PEER, TOP_P, Peer, Speed
from decoding.models.errors import get_first_line
from decoding.request import RequestError

LONGEST_S = 600.0
MAX_EVENT_BYTES = 1024 * 1024


@dataclass(slots=True)
class _StreamCounts:
    """Counts of one stream."""

    pieces: int = 0
    first_s: float | None = None  # when its first choice finished
    # OpenAI and vLLM count all choices in a last chunk without any; llama.cpp counts each choice where it ends.
    of_all: int = 0
    of_each: dict[int, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Without a count, a piece of text is taken for a token; it may be more."""
        return self.of_all or sum(self.of_each.values()) or self.pieces


class Endpoint:
    """A server, asked for n samples in one request if it makes them, else in n requests at once."""

    def __init__(self, model: str, base_url: str) -> None:
        """Raises RequestError or RemoteServerError if the server does not answer."""
        self._target = RemoteTarget(model, base_url.rstrip("/"))
        # Log-probabilities are left out: they would cost the server time.
        self._profile = replace(run_in_own_loop(self._probe()), takes_logprobs=False)

    def run(self, prompt: str, n: int, temperature: float, max_tokens: int) -> Speed:
        """Decode n samples of one prompt."""
        return run_in_own_loop(self._decode(prompt, n, temperature, max_tokens))

    async def _probe(self) -> ServerProfile:
        async with asyncio.timeout(LONGEST_S), ServerConnection(self._target) as server:
            return await probe_server(server)

    async def _decode(self, prompt: str, n: int, temperature: float, max_tokens: int) -> Speed:
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": temperature, "top_p": TOP_P}
        async with asyncio.timeout(LONGEST_S), ServerConnection(self._target) as server:
            started = time.perf_counter()

            async def ask(n_choices: int, seed: int) -> _StreamCounts:
                options = self._profile.build_options(n_choices, seed, (), COMPLETIONS_PATH)
                return await _count(server, {**body, **options}, n_choices, started)

            asked = [ask(n, 0)] if self._profile.takes_n else [ask(1, seed) for seed in range(n)]
            answers = await asyncio.gather(*asked)
            seconds = time.perf_counter() - started
        first_s = min((answer.first_s for answer in answers if answer.first_s is not None), default=seconds)
        return Speed(sum(answer.tokens for answer in answers), seconds, first_s=first_s)


async def _count(server: ServerConnection, body: dict[str, object], n_choices: int, started: float) -> _StreamCounts:
    """Raises RequestError, RemoteServerError."""
    answer = _StreamCounts()
    async with contextlib.aclosing(server.stream(body, MAX_EVENT_BYTES, BusyWait(), COMPLETIONS_PATH)) as chunks:
        async for chunk in chunks:
            known = [choice for choice in chunk.choices if 0 <= choice.index < n_choices]
            counted = chunk.usage.completion_tokens
            if counted is not None and not chunk.choices:
                answer.of_all = counted
            elif counted is not None and known:
                answer.of_each[known[0].index] = counted
            for choice in known:
                answer.pieces += bool(choice.text)
                if choice.finish_reason is not None and answer.first_s is None:
                    answer.first_s = time.perf_counter() - started
    if not answer.pieces and answer.first_s is None:
        raise RemoteServerError(f"{server.address} ended its answer without a choice that was asked for")
    return answer


class OpenVino:
    """A pipeline on a model that `optimum-cli export openvino` wrote: n samples of a prompt in one batch."""

    def __init__(self, folder: Path, n_threads: int) -> None:
        """Raises ImportError where openvino-genai is not installed, and RuntimeError if it cannot load the folder."""
        import openvino_genai  # noqa: PLC0415

        self._pipeline: Any = openvino_genai.LLMPipeline(str(folder), "CPU", INFERENCE_NUM_THREADS=n_threads)
        self._tokenizer = self._pipeline.get_tokenizer()
        self.run("def add(a, b):\n", 2, 0.2, 4)

    def run(self, prompt: str, n: int, temperature: float, max_tokens: int) -> Speed:
        """Decode n samples of one prompt."""
        config = self._pipeline.get_generation_config()
        config.max_new_tokens = max_tokens
        config.num_return_sequences = n
        config.do_sample = temperature > 0
        config.temperature, config.top_p = temperature or 1.0, TOP_P
        started = time.perf_counter()
        tokens = self._tokenizer.encode(prompt, add_special_tokens=False)
        done = self._pipeline.generate(tokens, config)
        return Speed(sum(len(sample) for sample in done.tokens), time.perf_counter() - started)


def find_peers(
    endpoints: Sequence[tuple[str, str, str]], openvino: str | None
) -> tuple[dict[str, Peer], dict[str, str]]:
    """(the engines that answer, why the others do not), by the names of their arms."""
    found: dict[str, Peer] = {}
    not_run: dict[str, str] = {}
    if openvino is not None:
        try:
            found[f"{PEER}openvino"] = OpenVino(Path(openvino), torch.get_num_threads())
        except (ImportError, RuntimeError) as error:
            not_run[f"{PEER}openvino"] = get_first_line(error)
    for name, model, url in endpoints:
        try:
            found[PEER + name] = Endpoint(model, url)
        except (RequestError, RemoteServerError, TimeoutError) as error:
            not_run[PEER + name] = get_first_line(error)
    return found, not_run
