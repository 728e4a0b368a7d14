"""A text that comes in pieces and ends before the first of its stop strings."""

from __future__ import annotations

from collections.abc import Sequence


class StreamedText:
    """Grows by pieces until it holds a stop string, which is not part of it.

    `text` never shows the beginning of what may turn out to be a stop string. The stop string that is complete first
    ends the text, of several that are complete at once the longest, so the text does not depend on how it was cut into
    pieces.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(stop)
        self._longest_stop = max(map(len, self._stop), default=0)
        self._text = ""
        self._n_held_back = 0
        self.stop_string = ""
        """The stop string that ended the text; empty while none did."""

    @property
    def text(self) -> str:
        """The text so far."""
        return self._text[: len(self._text) - self._n_held_back]

    def append(self, piece: str) -> bool:
        """Add a piece; return True when it completed a stop string."""
        start = max(0, len(self._text) - self._longest_stop + 1)
        self._text += piece
        found = [(at + len(stop), at, stop) for stop in self._stop if (at := self._text.find(stop, start)) >= 0]
        if found:
            _, at, self.stop_string = min(found)
            self._text = self._text[:at]
            self._n_held_back = 0
            return True
        self._n_held_back = self._measure_possible_stop()
        return False

    def close(self) -> None:
        """End the text: what was held back as a possible stop string belongs to it after all."""
        self._n_held_back = 0

    def _measure_possible_stop(self) -> int:
        for n in range(min(self._longest_stop - 1, len(self._text)), 0, -1):
            tail = self._text[-n:]
            if any(stop.startswith(tail) for stop in self._stop if len(stop) > n):
                return n
        return 0
