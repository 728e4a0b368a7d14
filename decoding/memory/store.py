"""Who may have how many pages of the key-value cache.

All pools of an engine have the same number of pages, which the bytes for keys and values give when it is loaded. A
request takes the pages that it may need before it joins a batch, for each row all tokens that it may get, and its
prompt once. So no request is ended because another one arrives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import torch

from decoding.memory.cache import RaggedCache
from decoding.memory.pages import BufferSpecs, PagePool, count_pages
from decoding.memory.states import StatePool, count_slots
from decoding.models.device import count_free_bytes
from decoding.models.errors import NoMemoryError

# The share of free memory that caches may take: a forward needs some as well.
_USABLE = 0.9
# The share of that which recurrent states may take, and how many of earlier prompts are kept even if they are large.
_FOR_STATES = 0.5
_FEWEST_KEPT = 4


class MemoryNeed(NamedTuple):
    """What a request may need: rows of up to `max_tokens` tokens each, which have the first `shared` in common."""

    n_rows: int
    max_tokens: int
    shared: int = 0


class KVStore:
    """The memory for keys and values of one engine: `budget` bytes, by default most of what is free.

    `page_size` is the tokens of a page.
    """

    def __init__(self, device: torch.device, page_size: int, budget: int | None = None) -> None:
        self.page_size = page_size
        self._device = device
        self._budget = budget
        self._accounts: list[MemoryAccount] = []
        self.pools: list[PagePool] = []
        self._token_bytes = 1

    def divide(
        self,
        kinds: Sequence[BufferSpecs],
        most_tokens: int,
        idle_bytes: int,
        *,
        state_bytes: int = 0,
        max_rows: int = 0,
    ) -> list[PagePool]:
        """Return a pool for each model, whose tokens hold `kinds`, for up to `most_tokens` tokens of all rows.

        Each keeps up to `idle_bytes` of earlier prompts beside these. The first also has slots for the recurrent states
        of up to `max_rows` rows, if a row's states take `state_bytes`. Raises NoMemoryError if not even one row's fit.
        """
        sizes = [count_token_bytes(each) for each in kinds]
        self._token_bytes = max(sum(sizes), 1)
        limit = int(_USABLE * count_free_bytes(self._device)) if self._budget is None else self._budget
        states = None
        if state_bytes:
            n_fitting = int(_FOR_STATES * limit) // state_bytes
            if n_fitting < count_slots(1):
                raise NoMemoryError(
                    f"the recurrent states of one row take {count_slots(1) * state_bytes / 1e6:,.0f} MB, more than half"
                    f" of the {limit / 1e6:,.0f} MB for caches: end other programs, or choose a smaller model."
                )
            n_slots = min(count_slots(max_rows), n_fitting)
            n_kept = min(max(idle_bytes // state_bytes, _FEWEST_KEPT), n_fitting - n_slots) if idle_bytes else 0
            states = StatePool(n_slots, n_kept)
            limit -= (n_slots + n_kept) * state_bytes
        idle = [idle_bytes // max(size * self.page_size, 1) for size in sizes]
        useful = count_pages(most_tokens, self.page_size) + max(idle)
        n_pages = max(min(limit // (self._token_bytes * self.page_size), useful), 1)
        self.pools = [PagePool(n_pages, self.page_size, max_idle=min(n, n_pages)) for n in idle]
        self.pools[0].states = states
        return self.pools

    def open(self, caches: Sequence[RaggedCache]) -> MemoryAccount:
        """Open the account of caches that belong together, the target's first."""
        account = MemoryAccount(self, caches)
        self._accounts.append(account)
        return account

    def close(self, account: MemoryAccount) -> None:
        """Close an account; its caches are given up."""
        self._accounts.remove(account)
        account.clear()

    @property
    def n_bytes(self) -> int:
        """The bytes that the pools take."""
        states = [pool.states for pool in self.pools if pool.states is not None]
        return sum(pool.n_bytes for pool in self.pools) + sum(each.n_bytes for each in states)

    @property
    def n_slots(self) -> float:
        """The slots for recurrent states that rows may have, all together; infinity for models without any."""
        return min((pool.states.n_slots for pool in self.pools if pool.states is not None), default=math.inf)

    @property
    def n_slots_taken(self) -> int:
        """The slots for recurrent states that requests have taken."""
        return sum(account.n_slots_taken for account in self._accounts)

    @property
    def n_pages(self) -> int:
        """The pages that rows may have, all together: on a CPU others may have taken memory since."""
        n_pages = min(pool.n_pages for pool in self.pools)
        if self._budget is not None or self._device.type != "cpu":
            return n_pages
        touched = max(pool.n_touched for pool in self.pools)
        return min(
            n_pages, touched + int(_USABLE * count_free_bytes(self._device)) // (self._token_bytes * self.page_size)
        )

    def promised(self, which: int) -> int:
        """Return the pages of a pool that requests have taken and that have not been used yet."""
        return sum(account.promised(which) for account in self._accounts)


class MemoryAccount:
    """What the requests of one batch have taken for their rows."""

    def __init__(self, store: KVStore, caches: Sequence[RaggedCache]) -> None:
        self._store = store
        self._caches = list(caches)
        self._needs: dict[Hashable, int] = {}  # of each request its pages in each pool
        self._slots: dict[Hashable, int] = {}  # and its slots for recurrent states
        self.owners: Callable[[], Sequence[Hashable]] = list
        """Returns the request of each row, and of the rows that are set aside."""

    def n_pages(self, need: MemoryNeed) -> int:
        """Return the pages that a request may need in each pool."""
        size = self._store.page_size
        # A drafter may read the end of a prompt for each row by itself.
        shared = max(need.shared, 0) // max(size, 64) * max(size, 64) // size
        return shared + need.n_rows * (count_pages(need.max_tokens, size) - shared)

    def lacks(self, need: MemoryNeed) -> bool:
        """Return whether such rows do not fit beside what is taken now."""
        wanted, store = self.n_pages(need), self._store
        return _count_request_slots(need) + store.n_slots_taken > store.n_slots or any(
            wanted + pool.n_used + store.promised(which) > store.n_pages for which, pool in enumerate(store.pools)
        )

    def never_fits(self, need: MemoryNeed) -> bool:
        """Return whether such rows would not fit if no request had taken anything."""
        return self.n_pages(need) > self._store.n_pages or _count_request_slots(need) > self._store.n_slots

    def fitting_tokens(self, need: MemoryNeed) -> int:
        """Return the most tokens of each row that would fit alone if the prompt were shortened by as much."""
        low, high = 0, need.max_tokens
        own = need.max_tokens - need.shared
        while low < high:
            middle = (low + high + 1) // 2
            fits = not self.never_fits(MemoryNeed(need.n_rows, middle, max(middle - own, 0)))
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def take(self, owner: Hashable, need: MemoryNeed) -> None:
        """Note what a request may need from now on, in place of what was noted before."""
        self._needs[owner] = self.n_pages(need)
        self._slots[owner] = _count_request_slots(need)

    def give_back(self, owner: Hashable) -> None:
        """Forget a request."""
        self._needs.pop(owner, None)
        self._slots.pop(owner, None)

    @property
    def n_slots_taken(self) -> int:
        """The slots for recurrent states that the requests have taken."""
        return sum(self._slots.values())

    def promised(self, which: int) -> int:
        """Return the pages of a pool that the requests have taken and that their rows do not have yet."""
        if not self._needs or which >= len(self._caches):
            return 0
        held: dict[Hashable, set[int]] = {owner: set() for owner in self._needs}
        # A row that is about to be placed has no pages yet.
        for owner, pages in zip(self.owners(), self._caches[which].list_pages(), strict=False):
            if owner in held:
                held[owner].update(pages)
        return sum(max(n - len(held[owner]), 0) for owner, n in self._needs.items())

    def clear(self) -> None:
        """Forget all requests and rows."""
        self._needs.clear()
        self._slots.clear()
        for cache in self._caches:
            cache.clear()
            cache.pool.trim()


def _count_request_slots(need: MemoryNeed) -> int:
    """Return the slots that rows may need for recurrent states: one each, and one for the state after their prompt."""
    return need.n_rows + (need.n_rows > 0)


def count_token_bytes(kinds: BufferSpecs) -> int:
    """Return the bytes of a token."""
    return sum(kind.shape[0] * kind.shape[2] * kind.element_size() for kind in kinds.values())
