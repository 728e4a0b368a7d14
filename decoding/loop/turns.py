"""How time is divided between a long prompt and the requests that decode beside it."""

from __future__ import annotations

# The chunks of a prompt that are read without a round of the others between them.
_CHUNKS_AT_ONCE = 16
# The prompt gets as much time as any other request, but not less than this.
_LEAST_SHARE = 0.05
# It is read within this share of the time that its request has left, if the others can wait for as long.
_SHARE_OF_TIME_LEFT = 0.5


def is_long(n_chunks: int) -> bool:
    """Return whether a prompt with so many chunks left takes turns with the others."""
    return n_chunks > _CHUNKS_AT_ONCE


def compute_reading_share(n_others: int, rest_s: float, left_s: float) -> float:
    """Return the share of time, up to 1, in which a prompt is read beside `n_others` requests that decode.

    Reading it takes `rest_s` more, and its request has `left_s`.
    """
    usable_s = _SHARE_OF_TIME_LEFT * left_s
    if not n_others or usable_s <= rest_s:
        return 1.0
    return max(1 / (1 + n_others), _LEAST_SHARE, rest_s / usable_s)


class ReadingTurns:
    """Whose turn it is while a long prompt is read: its next chunk's, once the others have had their share."""

    def __init__(self) -> None:
        self._owed_s = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the next chunk is to be read now."""
        return self._owed_s <= 0.0

    def restart(self) -> None:
        """Begin another prompt."""
        self._owed_s = 0.0

    def record_chunk(self, seconds: float, share: float) -> None:
        """Note a chunk that took `seconds`, where `share` of the time goes to the prompt."""
        self._owed_s += seconds * (1 - share) / share

    def record_others(self, seconds: float) -> None:
        """Note `seconds` in which the others decoded, or a request that joins them read its prompt."""
        self._owed_s -= seconds
