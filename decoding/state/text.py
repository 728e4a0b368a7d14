"""Tokens to text as they come, and the stop strings that end it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any


class TextStream:
    """Grows a sample's text token by token and watches for stop strings.

    A token is decoded together with the few before it, because a tokenizer may join or split characters across
    tokens; text ending in an unfinished character waits for the next token. `text` never shows the beginning of what
    may turn out to be a stop string.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int], stop: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._longest_stop = max(map(len, self._stop), default=0)
        self._window = list(prompt[-4:])
        self._shown = self._decode()
        self._text = ""
        self._held = 0
        self.stop_string = ""
        """The stop string that ended the text, which does not hold it; empty while none did."""

    def fork(self) -> TextStream:
        """Return an independent copy of the stream."""
        twin = copy(self)
        twin._window = list(self._window)
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
        return self._append(gained)

    @property
    def text(self) -> str:
        """The text so far."""
        return self._text[: len(self._text) - self._held]

    def close(self) -> None:
        """End the stream: text held back as a possible stop string is text after all."""
        self._held = 0

    def _append(self, gained: str) -> bool:
        start = max(0, len(self._text) - self._longest_stop + 1)
        self._text += gained
        found = [(at, stop) for stop in self._stop if (at := self._text.find(stop, start)) >= 0]
        if found:
            at, self.stop_string = min(found)
            self._text = self._text[:at]
            self._held = 0
            return True
        self._held = self._possible_stop()
        return False

    def _possible_stop(self) -> int:
        for n in range(min(self._longest_stop - 1, len(self._text)), 0, -1):
            tail = self._text[-n:]
            if any(stop.startswith(tail) for stop in self._stop if len(stop) > n):
                return n
        return 0

    def _decode(self) -> str:
        text: str = self._tokenizer.decode(self._window, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
