"""The pages that keys and values of one model lie in: one allocation for each layer, made once.

A row of a batch is a list of pages, and nothing ever moves. A page belongs to every row that counts a reference to it:
rows of one prompt share its pages, and who writes into a shared one copies it first (`cache.py`). Full pages of prompts
may be kept after their rows have gone, for prompts that begin with the same tokens: they are found by the hash of
their tokens and of the page before, as in vLLM and SGLang, and the least recently used go first once others need them.

Two more pages are never handed out. Page 0 stays zero: attention may read it where a row has no page. The last one
takes what has no place, from writers that cannot skip it.
"""

from __future__ import annotations

import hashlib
import mmap
from array import array
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from decoding.memory.states import StatePool

PAGE_SIZE = {"cpu": 64, "cuda": 16}
"""The tokens of a page. On a CPU a chunk of a prefill fills one."""
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
# An idle pool on a CPU that takes no more keeps all of it, so that the next request finds memory already given.
_KEPT_BYTES = 64 * 2**20

BufferSpecs = Mapping[Hashable, torch.Tensor]
"""What a token has: an empty tensor [H, 0, D] by the name of the buffer."""


_MARK = "is_page_buffer"


class OutOfPagesError(RuntimeError):
    """All pages are in use."""


class PagePool:
    """`n_pages` pages of `page_size` tokens, of which up to `max_idle` may be kept for later prompts."""

    def __init__(self, n_pages: int, page_size: int, *, max_idle: int | None = None) -> None:
        self.n_pages = n_pages
        self.page_size = page_size
        self.states: StatePool | None = None  # of a model with recurrent layers
        self._max_idle = n_pages if max_idle is None else max_idle
        self.buffers: dict[Hashable, torch.Tensor] = {}
        self._maps: list[mmap.mmap] = []
        self._references = [1]  # of each page that was ever handed out
        self._free: list[int] = []
        self._page_of: dict[bytes, int] = {}
        self._key_of: dict[int, bytes] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # kept without a reference, least recently used first

    # Memory -------------------------------------------------------------------------------------------------------

    def buffer(self, name: Hashable, like: torch.Tensor) -> torch.Tensor:
        """Return the buffer [P, H, page_size, D] of a name, made for values such as `like` [.., H, N, D]."""
        if name not in self.buffers:
            # The tokens of a head lie side by side: attention reads one head at a time, and memory in long pieces.
            H, _, D = like.shape[-3:]
            self.buffers[name] = self._allocate_zeros((self.n_pages + 2, H, self.page_size, D), like)
            setattr(self.buffers[name], _MARK, True)
        return self.buffers[name]

    def allocate(self, kinds: BufferSpecs) -> None:
        """Make the buffers of all kinds."""
        for name, kind in kinds.items():
            self.buffer(name, kind)

    def flat(self, name: Hashable) -> torch.Tensor:
        """Return a buffer of one head as [slots, D], where slot = page * page_size + offset."""
        return self.buffers[name].view(-1, self.buffers[name].shape[-1])

    def copy(self, source: int, target: int) -> None:
        """Copy what a page holds to another one."""
        for buffer in self.buffers.values():
            buffer[target] = buffer[source]

    @property
    def page_bytes(self) -> int:
        """The bytes of a page in all buffers."""
        return sum(buffer.nbytes // len(buffer) for buffer in self.buffers.values())

    @property
    def n_bytes(self) -> int:
        """The bytes that the pool takes: on a CPU only pages that were in use take any."""
        n_pages = len(self._references) if self._maps else self.n_pages + 2
        return n_pages * self.page_bytes

    def _allocate_zeros(self, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        # NOTE zeros, not empty: a masked slot still contributes 0 * value, and 0 * NaN is NaN.
        if like.device.type != "cpu":
            return like.new_zeros(shape)
        # The system gives memory of a map once it is touched; PyTorch would touch all of it.
        n_bytes = max(torch.Size(shape).numel() * like.element_size(), 1)
        held = mmap.mmap(-1, n_bytes, **_PRIVATE)
        self._maps.append(held)
        return torch.frombuffer(held, dtype=torch.uint8)[:n_bytes].view(like.dtype).view(shape)

    def trim(self) -> None:
        """Give memory of a pool that no row uses back to the system."""
        if not self._maps or self.n_used or self.n_bytes <= _KEPT_BYTES:
            return
        n = max(self._idle, default=0) + 1
        del self._references[n:]
        self._free = [page for page in self._free if page < n]
        for held, buffer in zip(self._maps, self.buffers.values(), strict=True):
            start = -(-n * (buffer.nbytes // len(buffer)) // mmap.PAGESIZE) * mmap.PAGESIZE
            if hasattr(mmap, "MADV_DONTNEED") and start < len(held):
                held.madvise(mmap.MADV_DONTNEED, start, len(held) - start)

    # Pages --------------------------------------------------------------------------------------------------------

    @property
    def n_touched(self) -> int:
        """The pages that have been in use, beside the first."""
        return len(self._references) - 1

    @property
    def n_free(self) -> int:
        """The pages that could be taken now: no row has them."""
        return self.n_pages - self.n_used

    @property
    def n_used(self) -> int:
        """The pages that rows have."""
        return self.n_touched - len(self._free) - len(self._idle)

    def take(self) -> int:
        """Return a page with one reference. Raises OutOfPagesError."""
        if self._free:
            page = self._free.pop()
        elif self.n_touched < self.n_pages:
            page = len(self._references)
            self._references.append(0)
        elif self._idle:
            page = self._evict()
        else:
            raise OutOfPagesError(f"all {self.n_pages} pages of the key-value cache are in use")
        self._references[page] = 1
        return page

    def share(self, pages: Sequence[int]) -> None:
        """Count one more reference to each page."""
        for page in pages:
            if not self._references[page]:
                del self._idle[page]
            self._references[page] += 1

    def give_back(self, pages: Sequence[int]) -> None:
        """Count one reference less to each page, which are in the order of their tokens."""
        for page in reversed(pages):  # the first of a prompt counts as used last: it must not go before the others
            assert self._references[page] > 0, "a page was given back twice"
            self._references[page] -= 1
            if self._references[page]:
                continue
            if page not in self._key_of:
                self._free.append(page)
                continue
            self._idle[page] = None
            if len(self._idle) > self._max_idle:
                self._free.append(self._evict())

    def is_own(self, page: int) -> bool:
        """Whether the only row of a page may write into it."""
        return self._references[page] == 1 and page not in self._key_of

    def _evict(self) -> int:
        page, _ = self._idle.popitem(last=False)
        del self._page_of[self._key_of.pop(page)]
        return page

    # Earlier prompts ----------------------------------------------------------------------------------------------

    def find_known_pages(self, tokens: Sequence[int]) -> list[int]:
        """Return the pages of earlier prompts that hold what `tokens` begin with."""
        found = []
        for key in self.hash_prefixes(tokens):
            if (page := self._page_of.get(key)) is None:
                break
            found.append(page)
        return found

    def keep(self, tokens: Sequence[int], pages: Sequence[int]) -> None:
        """Let later prompts find the pages of these tokens that are full."""
        for key, page in zip(self.hash_prefixes(tokens), pages, strict=False):
            if key not in self._page_of and page not in self._key_of:
                self._page_of[key] = page
                self._key_of[page] = key

    def hash_prefixes(self, tokens: Sequence[int]) -> Iterator[bytes]:
        """Yield the key of each full page of a row: the hash of its tokens and of the page before."""
        key = b""
        ends = range(0, len(tokens) + 1, self.page_size)
        for start, end in pairwise(ends):
            key = hashlib.blake2b(key + array("q", tokens[start:end]).tobytes(), digest_size=32).digest()
            yield key


def index_heads(slot: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    """Return where each head of tokens is in a buffer [P, H, page_size, D] seen as [P * H * page_size, D].

    `slot` [R, N] is page * page_size + offset; -1 is the last slot of all. Returns [R, H, N].
    """
    P, H, size, _ = buffer.shape
    slot = slot[:, None] % (P * size)
    head = torch.arange(H, device=slot.device)[:, None]
    return (slot // size * H + head) * size + slot % size


def is_buffer(held: torch.Tensor) -> bool:
    """Whether a tensor is a buffer of a pool itself, and not computed from one."""
    return getattr(held, _MARK, False)


def count_pages(n_tokens: int, page_size: int) -> int:
    """Return the pages that hold `n_tokens`."""
    return -(-n_tokens // page_size)
