"""What a server can do, found out once by tiny requests. What it lacks is made up for on this side."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.core.remote.chunks import RemoteServerError
from app.core.remote.connection import BusyWait, RequestRefusedError, ServerBusyError, ServerConnection
from app.core.remote.dialects import BY_INFILL, BY_SUFFIX
from app.core.remote.server_pages import (
    CONTINUATION_FIELDS,
    NEUTRAL_SAMPLING,
    ServerFacts,
    has_single_token,
    read_facts,
    read_speculation,
)
from app.core.remote.target import CHAT_PATH, COMPLETIONS_PATH, INFILL_PATH
from decoding.models.infilling import FORMATS

MAX_STOPS = 256  # more are never sent: this side applies all of them
STOP_STEPS = (128, 64, 16, 4, 1)
PROBE_EVENT_BYTES = 1024 * 1024
_PROMPT = "def add(a, b):\n"
_SUFFIX = "    return total_of_both_numbers + a_constant_that_is_nowhere_else\n" * 4
_PREFIX_TOKENS = 16  # more than the prompt has; the suffix has several times as many
_PROBES: Mapping[str, dict[str, Any]] = {
    COMPLETIONS_PATH: {"prompt": _PROMPT, "max_tokens": 1},
    CHAT_PATH: {"messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 1},
    INFILL_PATH: {"input_prefix": _PROMPT, "input_suffix": _SUFFIX, "prompt": "", "n_predict": 1},
}
_SEED = {"seed": 0}
_LOGPROBS = {"logprobs": 1}
_CHAT_LOGPROBS = {"logprobs": True}
_USAGE = {"stream_options": {"include_usage": True}}


@dataclass(frozen=True, slots=True)
class ServerProfile:
    """The fields of a request that a server accepts, and the dialects that it has.

    Only `n`, and stop strings found in the prompt, are tested for their effect. `infill` is how it fills a gap:
    `suffix`, `/infill` or the name of a family of markers; None: not.
    """

    takes_n: bool = True
    max_stops: int = MAX_STOPS
    takes_seed: bool = True
    takes_logprobs: bool = True
    takes_usage: bool = True
    has_completions: bool = True
    chat: ServerProfile | None = None  # of its chat dialect; None: it has none
    infill: str | None = None
    facts: ServerFacts = field(default_factory=ServerFacts, hash=False)

    def get_dialect(self, path: str) -> ServerProfile:
        """The profile that holds for requests to this path."""
        return self.chat if path == CHAT_PATH and self.chat is not None else self

    @property
    def continuation(self) -> Mapping[str, Any] | None:
        """What to send so that the server writes on from the last message; None where it begins a new one."""
        return CONTINUATION_FIELDS.get(self.facts.name)

    def build_options(self, n: int, seed: int, stop: tuple[str, ...], path: str) -> dict[str, Any]:
        """The fields of a request for n samples beside those that every server takes."""
        options: dict[str, Any] = {**NEUTRAL_SAMPLING.get(self.facts.name, {})}
        if n > 1:
            options["n"] = n
        if self.takes_seed:
            options["seed"] = seed
        if self.takes_logprobs:
            options |= _LOGPROBS if path == COMPLETIONS_PATH else _CHAT_LOGPROBS if path == CHAT_PATH else {}
        if self.takes_usage and path != INFILL_PATH:
            options |= _USAGE
        if sent := list(stop[: self.max_stops]):
            options["stop"] = sent
        return options

    def needs_request_per_sample(self, stop: tuple[str, ...], path: str) -> bool:
        """Whether each sample needs a request of its own: the server makes one choice only, or it takes fewer stop
        strings than there are, and only a request of its own can be hung up where its text ends."""
        return not self.takes_n or path == INFILL_PATH or len(stop) > self.max_stops

    def describe_requests(self) -> dict[str, str | int]:
        """How requests are made and what is made up for on this side, as a run records it."""
        for_many = "one request per sample" if not self.takes_n else "one request for all samples of a task"
        if self.takes_n and self.max_stops < MAX_STOPS:
            for_many += f", one per sample where there are more than {self.max_stops} stop strings"
        return {
            "n_requests": for_many,
            "server_max_stops": self.max_stops,
            "server_takes_seed": self.takes_seed,
            "server_takes_logprobs": self.takes_logprobs,
        }

    def describe_server(self) -> dict[str, str]:
        """What the server is and offers, as a run records it."""
        dialects = {"completions": self.has_completions, "chat": self.chat is not None}
        sampling = NEUTRAL_SAMPLING.get(self.facts.name)
        named = {
            "server": self.facts.name,
            "server_version": self.facts.version,
            "server_dialects": ", ".join(name for name, is_offered in dialects.items() if is_offered),
            "server_infill": self.infill or "",
            "server_continues_replies": "yes" if self.chat is not None and self.continuation is not None else "",
            "server_sampling": json.dumps(sampling) if sampling else "",
            "server_speculation": json.dumps(self.facts.speculation) if self.facts.speculation else "",
        }
        return {name: value for name, value in named.items() if value}


async def probe_server(server: ServerConnection) -> ServerProfile:
    """The server's profile: what its pages say, and for each dialect one tiny request if it takes every field, else one
    for each field.

    Raises RequestRefusedError or RemoteServerError for a server that does not take the plainest request either.
    """
    facts = await read_facts(server)
    dialects: dict[str, ServerProfile] = {}
    refusals: list[RequestRefusedError | RemoteServerError] = []
    for path in (COMPLETIONS_PATH, CHAT_PATH):
        try:
            dialects[path] = await _probe_dialect(server, facts, path)
        except ServerBusyError:
            raise
        except (RequestRefusedError, RemoteServerError) as error:
            refusals.append(error)
    if not dialects:
        raise refusals[0]
    if COMPLETIONS_PATH not in dialects:
        plain, infill = ServerProfile(has_completions=False), None
    else:
        plain, infill = dialects[COMPLETIONS_PATH], await _find_infill(server)
        if plain.max_stops and await _matches_stops_in_prompt(server):
            dialects = {path: replace(profile, max_stops=0) for path, profile in dialects.items()}
            plain = dialects[COMPLETIONS_PATH]
    facts = replace(facts, speculation=await read_speculation(server))
    return replace(plain, chat=dialects.get(CHAT_PATH), infill=infill, facts=facts)


async def _probe_dialect(server: ServerConnection, facts: ServerFacts, path: str) -> ServerProfile:
    everything = ServerProfile(facts=facts).build_options(2, 0, _make_stops(MAX_STOPS), path)
    if answer := await _ask_if_taken(server, everything, path):
        return ServerProfile(takes_n=len(answer.indices) == 2, facts=facts)
    await _ask(server, {}, path)
    several = await _ask_if_taken(server, {"n": 2}, path)
    logprobs = _LOGPROBS if path == COMPLETIONS_PATH else _CHAT_LOGPROBS
    return ServerProfile(
        takes_n=several is not None and len(several.indices) == 2,
        max_stops=await _find_max_stops(server, path),
        takes_seed=await _ask_if_taken(server, _SEED, path) is not None,
        takes_logprobs=await _ask_if_taken(server, logprobs, path) is not None,
        takes_usage=await _ask_if_taken(server, _USAGE, path) is not None,
        facts=facts,
    )


async def _matches_stops_in_prompt(server: ServerConnection) -> bool:
    """Whether the server finds a stop string that begins in the prompt, as transformers does: it would end an answer at
    its first token. No stop strings are sent to it then."""
    greedy = {"temperature": 0, "max_tokens": 2}
    answer = await _ask_if_taken(server, greedy, COMPLETIONS_PATH)
    if answer is None or not answer.text or answer.reason != "length":
        return False
    joined = _PROMPT[-1] + answer.text[:1]
    if joined in answer.text:
        return False
    stopped = await _ask_if_taken(server, {**greedy, "stop": [joined]}, COMPLETIONS_PATH)
    return stopped is not None and stopped.reason == "stop"


async def _find_infill(server: ServerConnection) -> str | None:
    """How the server fills a gap, None where it does not. One that ignores a suffix reads no more tokens with it."""
    answer = await _ask_if_taken(server, {"suffix": _SUFFIX, **_USAGE}, COMPLETIONS_PATH)
    if answer is not None and answer.n_prompt_tokens > 2 * _PREFIX_TOKENS:
        return BY_SUFFIX
    if await _ask_if_taken(server, {}, INFILL_PATH) is not None:
        return BY_INFILL
    if not await has_single_token(server, "\n"):
        return None
    for each in FORMATS:
        for token in each.tokens:
            if not await has_single_token(server, token):
                break
        else:
            return each.family
    return None


async def _find_max_stops(server: ServerConnection, path: str) -> int:
    for n_stops in (MAX_STOPS, *STOP_STEPS):
        if await _ask_if_taken(server, {"stop": list(_make_stops(n_stops))}, path) is not None:
            return n_stops
    return 0


@dataclass(slots=True)
class _ProbeAnswer:
    """What a server answers to a probe; `indices` are its choices, of the two that a probe may ask for."""

    indices: set[int] = field(default_factory=set)
    text: str = ""
    reason: str | None = None
    n_prompt_tokens: int = 0


async def _ask_if_taken(server: ServerConnection, options: dict[str, Any], path: str) -> _ProbeAnswer | None:
    """None where the request is refused. A busy server says nothing about it: that is raised."""
    try:
        return await _ask(server, options, path)
    except ServerBusyError:
        raise
    except (RequestRefusedError, RemoteServerError):
        return None


async def _ask(server: ServerConnection, options: dict[str, Any], path: str) -> _ProbeAnswer:
    """The answer to a probe with these fields. Raises RemoteServerError unless choice 0 is in it."""
    answer = _ProbeAnswer()
    body = {**_PROBES[path], **options}
    async with contextlib.aclosing(server.stream(body, PROBE_EVENT_BYTES, BusyWait(), path)) as chunks:
        async for chunk in chunks:
            answer.n_prompt_tokens = chunk.usage.prompt_tokens or answer.n_prompt_tokens
            for choice in chunk.choices:
                answer.text, answer.reason = answer.text + choice.text, choice.finish_reason or answer.reason
                # A chat begins with an empty delta, also where an error follows.
                if choice.index in (0, 1) and (choice.text or choice.thought or choice.finish_reason):
                    answer.indices.add(choice.index)
            if len(answer.indices) == 2:
                break
    if 0 not in answer.indices:
        raise RemoteServerError(f"{server.address} ended its answer to a short prompt without a choice")
    return answer


def _make_stops(n_stops: int) -> tuple[str, ...]:
    return tuple(f"\n<stop {i}>" for i in range(n_stops))
