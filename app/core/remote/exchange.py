"""One request to a server, and the samples that it fills."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Sequence

from app.core.remote.chunks import ChoiceDelta, Chunk, RemoteServerError, Usage
from app.core.remote.connection import BUSY_LIMIT_S, BusyWait, ServerConnection
from app.core.remote.dialects import get_request_form
from app.core.remote.profile import ServerProfile
from app.core.remote.receiver import SampleReceiver
from app.core.remote.target import INFILL_PATH
from decoding.request import FinishReason, Request, RequestError
from decoding.state.clock import Clock

SILENCE_S = 600.0  # without any text; keep-alives are none
LAST_WORDS_S = 1.0  # for the usage, once every sample has ended
EVENT_BYTES = 64 * 1024
EVENT_BYTES_PER_TOKEN = 512  # some servers send all log-probabilities of a sample in its last event
MAX_EVENT_BYTES = 8 * 1024 * 1024


class Exchange:
    """A request for as many samples as there are receivers; choice i of its answer is for receiver i."""

    def __init__(
        self,
        server: ServerConnection,
        profile: ServerProfile,
        request: Request,
        clock: Clock,
        receivers: Sequence[SampleReceiver],
    ) -> None:
        self.receivers = receivers
        self.usage = Usage()
        self.fault: RequestError | RemoteServerError | None = None
        self._server, self._profile, self._request, self._clock = server, profile, request, clock
        self._busy = BusyWait(None if request.budget_s is not None else BUSY_LIMIT_S)
        self._over_s: float | None = None  # when the server had sent all that it sends

    @property
    def has_begun(self) -> bool:
        """Whether the server sent anything for a sample."""
        return any(receiver.has_begun for receiver in self.receivers)

    @property
    def waited_s(self) -> float:
        """Seconds on the request's clock until the server took it."""
        return self._request.waited_s + self._busy.waited_s

    async def run(self) -> None:
        """Fills the samples until all have ended. What prevents that is left in `fault`."""
        fault: RequestError | RemoteServerError | None = None
        try:
            await self._listen()
            if not self.has_begun:
                fault = RemoteServerError(
                    f"{self._server.address} ended its answer without a choice that was asked for"
                )
        except (RequestError, RemoteServerError) as error:
            fault = error
        if self._clock.left_s > 0:  # past the deadline it prevents nothing
            self.fault, self._over_s = fault, self._clock.elapsed_s

    def end(self, *, is_cancelled: bool) -> None:
        """Ends the samples that the server has not ended: it stopped sending, or nobody waits any longer."""
        reason: FinishReason = "error" if self._over_s is not None else "cancelled" if is_cancelled else "deadline"
        for receiver in self.receivers:
            if not receiver.is_ended:
                receiver.end(reason, self._clock.elapsed_s if self._over_s is None else self._over_s)

    async def _listen(self) -> None:
        request, first = self._request, self.receivers[0].sample
        path, fields, is_fence_awaited = get_request_form(request.prompt)
        stop = () if is_fence_awaited else request.stop  # the server would stop at the fence that opens the answer
        body = {
            **fields,
            "max_tokens" if path != INFILL_PATH else "n_predict": request.max_new_tokens,
            "temperature": request.sampling.temperature,
            "top_p": request.sampling.top_p,
            **self._profile.build_options(len(self.receivers), first.seed, stop, path),
        }
        per_event = EVENT_BYTES + len(self.receivers) * request.max_new_tokens * EVENT_BYTES_PER_TOKEN
        chunks = self._server.stream(body, min(per_event, MAX_EVENT_BYTES), self._busy, path)
        now = asyncio.get_running_loop().time
        try:
            async with contextlib.aclosing(chunks), asyncio.timeout(SILENCE_S) as patience:
                async for chunk in chunks:
                    if self._clock.left_s <= 0:
                        return
                    self._record_usage(chunk)
                    has_text = self._take(chunk.choices)
                    if self._are_all_ended():
                        if any(receiver.is_cut for receiver in self.receivers):
                            return  # the server may go on without end
                        patience.reschedule(min(patience.when() or math.inf, now() + LAST_WORDS_S))
                    elif has_text:
                        patience.reschedule(now() + SILENCE_S)
        except TimeoutError:
            if not self._are_all_ended():
                raise RemoteServerError(f"{self._server.address} sent no text for {SILENCE_S:g} s") from None

    def _record_usage(self, chunk: Chunk) -> None:
        """Keeps the counts of the whole answer, or the counts of one choice where they come with its end."""
        ended = [choice.index for choice in chunk.choices if choice.finish_reason is not None]
        n_tokens = chunk.usage.completion_tokens
        index = 0 if len(self.receivers) == 1 else ended[0] if len(ended) == 1 else None
        if index is not None and n_tokens is not None and 0 <= index < len(self.receivers):
            self.receivers[index].sample.n_reported = n_tokens
        usage = chunk.usage.fill_unknown(self.usage)
        if len(ended) == 1 and chunk.usage.drafted_tokens is not None:
            for name in ("drafted_tokens", "accepted_tokens"):
                setattr(usage, name, (getattr(chunk.usage, name) or 0) + (getattr(self.usage, name) or 0))
        self.usage = usage

    def _take(self, choices: Sequence[ChoiceDelta]) -> bool:
        """Adds choices to their samples, and leaves out those that were not asked for; whether there was any text."""
        heard_s = self._clock.elapsed_s
        known = [choice for choice in choices if 0 <= choice.index < len(self.receivers)]
        for choice in known:
            self.receivers[choice.index].take(choice, heard_s)
        return any(choice.text or choice.thought for choice in known)

    def _are_all_ended(self) -> bool:
        return all(receiver.is_ended for receiver in self.receivers)
