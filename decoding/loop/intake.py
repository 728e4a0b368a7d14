"""Which request joins the batch next, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from decoding.loop.admission import Admission
from decoding.models.loaded import LoadedModel
from decoding.request import Request, RequestError
from decoding.state.request_state import RequestState

# Requests that wait here are claimed, so no other worker can take them: hold only a few.
_MAX_WAITING = 4

Arrival = RequestState | tuple[int, RequestError]
"""A request to be decoded, or the position of one that cannot be honoured, and why."""


class Intake(Protocol):
    """Hands requests to a batch."""

    def next(self) -> Arrival | None:
        """Take the next request if it may join the batch now."""

    def waiting(self) -> list[RequestState]:
        """Return the requests that are taken and have not joined; the caller may end them."""

    @property
    def is_over(self) -> bool:
        """Whether no further request can come."""


class InOrderIntake:
    """Takes requests in their order, each when the others leave room for it; then its clock starts."""

    def __init__(
        self,
        requests: Iterable[Request],
        model: LoadedModel,
        has_free_place: Callable[[], bool],
        fits_beside_others: Callable[[RequestState], bool],
    ) -> None:
        """A request is taken if there is room for one of its samples, and joins if it fits beside the others."""
        self._incoming = enumerate(requests)
        self._model = model
        self._has_free_place = has_free_place
        self._fits_beside_others = fits_beside_others
        self._next: RequestState | None = None

    def next(self) -> Arrival | None:
        """Take the next request if the others leave room for it."""
        if self._next is not None:
            taken: Arrival | None = self._next
            self._next.restart_clock()
            self._next = None
        else:
            arrival = next(self._incoming, None) if self._has_free_place() else None
            taken = _start_request(*arrival, self._model) if arrival else None
        if isinstance(taken, RequestState) and not self._fits_beside_others(taken):
            self._next = taken
            return None
        return taken

    def waiting(self) -> list[RequestState]:
        """Return none: no clock of a request runs while it waits."""
        return []

    @property
    def is_over(self) -> bool:
        """Whether an empty batch stays empty: it has room, so the last request has come."""
        return True


class EarliestDeadlineIntake:
    """Takes requests as they arrive, their clocks running, and lets them join by their deadlines.

    The request with the earliest deadline joins first, of those that can still be finished in time; the others follow.
    A source that has no request now yields None; it is asked again before the next round.
    """

    def __init__(self, requests: Iterable[Request | None], model: LoadedModel, admission: Admission) -> None:
        self._incoming = iter(requests)
        self._model = model
        self._admission = admission
        self._waiting: list[RequestState] = []
        self._n_taken = 0
        self._has_ended = False

    def next(self) -> Arrival | None:
        """Take the requests that have arrived, and let the most urgent one join if it is admitted."""
        while len(self._waiting) < _MAX_WAITING and (request := self._take_arrived()):
            taken = _start_request(self._n_taken, request, self._model)
            self._n_taken += 1
            if not isinstance(taken, RequestState):
                return taken
            self._waiting.append(taken)
        return self._join()

    def waiting(self) -> list[RequestState]:
        """Return the requests that have arrived and not joined."""
        self._waiting = [state for state in self._waiting if not state.is_done]
        return list(self._waiting)

    @property
    def is_over(self) -> bool:
        """Whether the source has ended and nobody waits."""
        return self._has_ended and not self._waiting

    def _take_arrived(self) -> Request | None:
        try:
            return next(self._incoming)
        except StopIteration:
            self._has_ended = True
            return None

    def _join(self) -> RequestState | None:
        admission = self._admission
        # A second long prompt keeps nobody from joining.
        waiting = [state for state in self.waiting() if not admission.waits_to_read(state)]
        if not waiting:
            return None
        state = min(waiting, key=lambda each: (not admission.can_finish(each), each.clock.left_s, each.position))
        if not admission.try_admit(state):
            return None
        self._waiting.remove(state)
        state.waited_s = state.clock.elapsed_s
        return state


def _start_request(position: int, request: Request, model: LoadedModel) -> Arrival:
    try:
        return RequestState.start(position, request, model)
    except RequestError as error:
        return position, error
