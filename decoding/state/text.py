"""Texts that come in pieces or tokens, and the stop strings that end them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any


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


class TextStream:
    """Grows a sample's text token by token and watches for stop strings.

    A token is decoded together with the few before it, because a tokenizer may join or split characters across
    tokens; text ending in an unfinished character waits for the next token. `text` never shows the beginning of what
    may turn out to be a stop string.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int], stop: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._window = list(prompt[-4:])
        self._shown = self._decode()
        self._streamed = StreamedText(stop)

    def fork(self) -> TextStream:
        """Return an independent copy of the stream."""
        twin = copy(self)
        twin._window = list(self._window)
        twin._streamed = copy(self._streamed)
        return twin

    def push(self, token: int) -> bool:
        """Take one token; return True when it completed a stop string (text then ends before that string)."""
        self._window.append(token)
        decoded = self._decode()
        if decoded.endswith("\N{REPLACEMENT CHARACTER}") and len(self._window) < 32:
            return False
        # What the window's text gained is this token's; from here on only a short window is decoded.
        gained = decoded[len(self._shown) :]
        self._window = self._window[-4:]
        self._shown = self._decode()
        return self._streamed.append(gained)

    @property
    def text(self) -> str:
        """The text so far."""
        return self._streamed.text

    @property
    def stop_string(self) -> str:
        """The stop string that ended the text, which does not hold it; empty while none did."""
        return self._streamed.stop_string

    def close(self) -> None:
        """End the stream: text held back as a possible stop string is text after all."""
        self._streamed.close()

    def _decode(self) -> str:
        text: str = self._tokenizer.decode(self._window, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
