"""What a server can do, found out once by tiny requests. What it lacks is made up on this side."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from app.core.remote.chunks import RemoteServerError
from app.core.remote.connection import BusyWait, RefusedError, ServerBusyError, ServerConnection

MAX_STOPS = 256  # more are never sent: this side applies all of them
STOP_STEPS = (128, 64, 16, 4, 1)
PROBE_EVENT_BYTES = 1024 * 1024
_PROBE = {"prompt": "def add(a, b):\n", "max_tokens": 1}
_SEED = {"seed": 0}
_LOGPROBS = {"logprobs": 1}
_USAGE = {"stream_options": {"include_usage": True}}


@dataclass(frozen=True, slots=True)
class ServerProfile:
    """The fields of a request that a server takes and obeys."""

    takes_n: bool = True
    max_stops: int = MAX_STOPS
    takes_seed: bool = True
    takes_logprobs: bool = True
    takes_usage: bool = True

    def build_options(self, n: int, seed: int, stop: tuple[str, ...]) -> dict[str, Any]:
        """The fields of a request for n samples beside those that every server takes."""
        options: dict[str, Any] = {"n": n} if n > 1 else {}
        if self.takes_seed:
            options["seed"] = seed
        if self.takes_logprobs:
            options |= _LOGPROBS
        if self.takes_usage:
            options |= _USAGE
        if sent := list(stop[: self.max_stops]):
            options["stop"] = sent
        return options

    def needs_request_per_sample(self, stop: tuple[str, ...]) -> bool:
        """Whether each sample needs a request of its own: the server makes one choice only, or it takes fewer stop
        strings than there are, and only a request of its own can be hung up where its text ends."""
        return not self.takes_n or len(stop) > self.max_stops

    def provenance(self) -> dict[str, str | int]:
        """How requests are made and what is made up on this side, as a run records it."""
        for_many = "one request per sample" if not self.takes_n else "one request for all samples of a task"
        if self.takes_n and self.max_stops < MAX_STOPS:
            for_many += f", one per sample where there are more than {self.max_stops} stop strings"
        return {
            "n_requests": for_many,
            "server_max_stops": self.max_stops,
            "server_takes_seed": self.takes_seed,
            "server_takes_logprobs": self.takes_logprobs,
        }


async def probe_server(server: ServerConnection) -> ServerProfile:
    """The server's profile, from one tiny request if it takes every field, else from one for each field.

    Raises RefusedError or RemoteServerError for a server that does not take the plainest request either.
    """
    everything = ServerProfile().build_options(2, 0, _make_stops(MAX_STOPS))
    if n_choices := await _count_choices_if_taken(server, everything):
        return ServerProfile(takes_n=n_choices == 2)
    await _count_choices(server, {})
    return ServerProfile(
        takes_n=await _takes(server, {"n": 2}, n_choices=2),
        max_stops=await _find_max_stops(server),
        takes_seed=await _takes(server, _SEED),
        takes_logprobs=await _takes(server, _LOGPROBS),
        takes_usage=await _takes(server, _USAGE),
    )


async def _find_max_stops(server: ServerConnection) -> int:
    for n_stops in (MAX_STOPS, *STOP_STEPS):
        if await _takes(server, {"stop": list(_make_stops(n_stops))}):
            return n_stops
    return 0


async def _takes(server: ServerConnection, options: dict[str, Any], n_choices: int = 1) -> bool:
    return await _count_choices_if_taken(server, options) >= n_choices


async def _count_choices_if_taken(server: ServerConnection, options: dict[str, Any]) -> int:
    try:
        return await _count_choices(server, options)
    except ServerBusyError:
        raise  # that says nothing about the fields
    except (RefusedError, RemoteServerError):
        return 0


async def _count_choices(server: ServerConnection, options: dict[str, Any]) -> int:
    """How many of the choices that can have been asked for the server sends. Raises RemoteServerError for none."""
    seen: set[int] = set()
    async with contextlib.aclosing(server.stream({**_PROBE, **options}, PROBE_EVENT_BYTES, BusyWait())) as chunks:
        async for chunk in chunks:
            seen |= {choice.index for choice in chunk.choices} & {0, 1}
            if seen == {0, 1}:
                break
    if 0 not in seen:
        raise RemoteServerError(f"{server.address} ended its answer to a short prompt without a choice")
    return len(seen)


def _make_stops(n_stops: int) -> tuple[str, ...]:
    return tuple(f"\n<stop {i}>" for i in range(n_stops))
