"""Keys and values of earlier prompts, for prompts that begin with the same tokens.

A block is what one chunk of a prefill computes. A prompt that begins with the tokens of known blocks takes them, and
prefills the rest in the chunks in which it would have done so anyway. So every forward has the shape and the input that
it has without the cache, and the texts are the same in every dtype.

A block is found by all tokens up to its end, as in vLLM's automatic prefix caching.
"""

from __future__ import annotations

import math
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import takewhile

from decoding.memory.cache import RaggedCache
from decoding.memory.shelf import Slots


class PrefixCache:
    """Blocks of one model, at most `max_bytes` of them; least recently used first out."""

    def __init__(self, max_bytes: int, block: int, room: Callable[[PrefixCache], float] = lambda _: math.inf) -> None:
        """`block` is in tokens: the size of a chunk of the prefill. `room` says how many bytes there is memory for."""
        self._max_bytes = max_bytes
        self._room = room
        self._block = block
        self._blocks: OrderedDict[bytes, Slots] = OrderedDict()
        self.n_bytes = 0

    def restore(self, cache: RaggedCache, row: int, tokens: Sequence[int]) -> int:
        """Write the known blocks that `tokens` begin with into an empty row and commit them; return their tokens."""
        n_known = self.n_known(tokens)
        keys = self._keys(tokens[:n_known])
        for i, key in enumerate(keys):
            cache.write(row, i * self._block, self._blocks[key])
        self._use(keys)
        cache.commit([n_known], row)
        return n_known

    def n_known(self, tokens: Sequence[int]) -> int:
        """Return how many of `tokens`, from the first on, are in known blocks."""
        return self._block * sum(1 for _ in takewhile(self._blocks.__contains__, self._keys(tokens)))

    def store(self, cache: RaggedCache, row: int, tokens: Sequence[int]) -> None:
        """Keep the last block of `tokens`, all of which the row has; nothing if they end within a block."""
        if not tokens or len(tokens) % self._block:
            return
        keys = self._keys(tokens)
        if keys[-1] not in self._blocks:
            self._blocks[keys[-1]] = cache.read(row, len(tokens) - self._block, len(tokens))
            self.n_bytes += _n_bytes(self._blocks[keys[-1]])
        self._use(keys)
        self.shrink(min(self._max_bytes, self._room(self)))

    def shrink(self, n_bytes: float) -> None:
        """Drop blocks until at most `n_bytes` are left."""
        while self._blocks and self.n_bytes > n_bytes:
            _, dropped = self._blocks.popitem(last=False)
            self.n_bytes -= _n_bytes(dropped)

    def _use(self, keys: Sequence[bytes]) -> None:
        """Count these blocks, of one prompt, as used now, the first as the last: it must not go before the others."""
        for key in reversed(keys):
            if key in self._blocks:
                self._blocks.move_to_end(key)

    def _keys(self, tokens: Sequence[int]) -> list[bytes]:
        content, width = array("q", tokens).tobytes(), array("q").itemsize
        ends = range(self._block, len(tokens) + 1, self._block)
        return [content[: end * width] for end in ends]


def _n_bytes(block: Slots) -> int:
    return sum(tensor.nbytes for tensor in block.values())
