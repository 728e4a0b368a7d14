"""Who may have how much memory for keys and values.

A request takes its share before it joins a batch: what its rows need when each has become as long as it may. So the
memory of a request that has joined is not given to another one, however many rows there are later. Buffers are made
when there are rows for them, and the ones that no row uses go back once another one needs the memory.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import torch

from decoding.memory.cache import RaggedCache
from decoding.memory.prefix_cache import PrefixCache
from decoding.memory.shelf import Kinds
from decoding.models.device_memory import free_bytes, is_out_of_memory

# The share of free memory that caches may take: a forward needs some as well.
_USABLE = 0.9


class KVStore:
    """The memory for keys and values of one engine: `budget` bytes, by default most of what is free when it is needed.

    Batches have an account each. Blocks of earlier prompts stay as long as no request needs the memory.
    """

    def __init__(self, device: torch.device, budget: int | None = None) -> None:
        self._device = device
        self._budget = budget
        self._accounts: list[Account] = []
        self._prefixes: list[PrefixCache] = []
        self._kinds: list[Kinds] = []  # what the caches of a batch hold, in their order

    def keep_prefixes(self, max_bytes: int, block: int) -> PrefixCache:
        """Return a new cache of blocks of earlier prompts, which takes what requests leave."""
        made = PrefixCache(max_bytes, block, lambda own: self.limit - self.n_bytes + own.n_bytes)
        self._prefixes.append(made)
        return made

    def open(self, caches: Sequence[RaggedCache]) -> Account:
        """Open the account of caches that belong together, the target's first.

        What a row of each holds is known if earlier caches have held it.
        """
        self._kinds += [{} for _ in caches[len(self._kinds) :]]
        for cache, kinds in zip(caches, self._kinds, strict=False):
            cache.share_kinds(kinds)
        account = Account(self, caches)
        self._accounts.append(account)
        return account

    def close(self, account: Account) -> None:
        """Close an account; its caches are given up."""
        self._accounts.remove(account)
        account.release()

    @property
    def n_bytes(self) -> int:
        """The bytes in use, by caches and by blocks of earlier prompts."""
        caches = sum(account.n_bytes for account in self._accounts)
        return caches + sum(cache.n_bytes for cache in self._prefixes)

    @property
    def limit(self) -> int:
        """The bytes that requests may take, all together."""
        return self.n_bytes + int(_USABLE * free_bytes(self._device)) if self._budget is None else self._budget

    @property
    def taken(self) -> int:
        """The bytes that requests have taken, whether there are buffers for them yet or not."""
        return sum(account.taken for account in self._accounts)

    def may_use(self, n_bytes: int) -> bool:
        """Return whether there is memory for `n_bytes` more in buffers than now. Blocks and idle buffers make room."""
        more = self.n_bytes + n_bytes - self.limit
        if more > 0:
            for cache in self._prefixes:
                cache.shrink(max(cache.n_bytes - more, 0))
            for account in self._accounts:
                account.trim()
        return self.n_bytes + n_bytes <= self.limit


class Account:
    """What the requests of one batch have taken for their rows."""

    def __init__(self, store: KVStore, caches: Sequence[RaggedCache]) -> None:
        self._store = store
        self._caches = list(caches)
        self._rows: dict[Hashable, tuple[int, int]] = {}  # of each request its rows, and the most tokens of each
        for cache in caches:
            cache.may_take = store.may_use

    @property
    def slot_bytes(self) -> int:
        """The bytes of a token of a row in all caches; 0 as long as no batch has written any."""
        return sum(cache.slot_bytes for cache in self._caches)

    @property
    def n_bytes(self) -> int:
        """The bytes of the buffers."""
        return sum(cache.n_bytes for cache in self._caches)

    @property
    def taken(self) -> int:
        """The bytes that the requests have taken."""
        return self._needs(self._rows.values())

    @property
    def limit(self) -> int:
        """The bytes that there are for all requests together."""
        return self._store.limit

    @property
    def free(self) -> int:
        """The bytes that no request has taken."""
        return max(self._store.limit - self._store.taken, 0)

    def needs(self, n_rows: int, most: int) -> int:
        """Return the bytes that `n_rows` rows of up to `most` tokens take by themselves."""
        return self._needs([(n_rows, most)])

    def lacks(self, n_rows: int, most: int) -> bool:
        """Return whether such rows do not fit beside what is taken now."""
        others = self._store.taken - self.taken
        return others + self._needs([*self._rows.values(), (n_rows, most)]) > self._store.limit

    def never_fits(self, n_rows: int, most: int) -> bool:
        """Return whether such rows would not fit if no request had taken anything."""
        return self.needs(n_rows, most) > self._store.limit

    def _needs(self, rows: Collection[tuple[int, int]]) -> int:
        return self._caches[0].slots_for(rows) * self.slot_bytes

    def take(self, owner: Hashable, n_rows: int, most: int) -> None:
        """Note what a request may need from now on, in place of what was noted before."""
        self._rows[owner] = n_rows, most

    def give_back(self, owner: Hashable) -> None:
        """Forget a request."""
        self._rows.pop(owner, None)

    def make_room(self, n_rows: int, most: int) -> bool:
        """Make buffers for more rows of up to `most` tokens. Return False where memory has run out; rows stay as they
        are."""
        try:
            for cache in self._caches:
                cache.make_room(n_rows, most)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            for cache in self._caches:
                cache.withdraw_room()
                cache.trim()
            return False
        return True

    def trim(self) -> None:
        """Give back the buffers that no row uses."""
        for cache in self._caches:
            cache.trim()

    def clear(self) -> None:
        """Forget all requests and rows; buffers stay."""
        self._rows.clear()
        for cache in self._caches:
            cache.clear()

    def release(self) -> None:
        """Give all buffers back."""
        for cache in self._caches:
            cache.release()
