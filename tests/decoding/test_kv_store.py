"""Rows start, grow, fork, move and go in any order, and each keeps its own tokens, within the bytes that there are."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from decoding.memory.cache import RaggedCache
from decoding.memory.layout import padded_slots
from decoding.memory.shelf import shelf_capacity
from decoding.memory.store import KVStore

CPU = torch.device("cpu")
SLOT_BYTES = 2 * 4  # a key and a value, one number of four bytes each
MOSTS = (200, 300, 700, 1100)
MAX_ROWS = 6


class Rows(RuleBasedStateMachine):
    """A cache of one layer beside a plain list of the tokens of each row."""

    kind: ClassVar[dict[str, bool]] = {}

    def __init__(self) -> None:
        super().__init__()
        # Room for what the rows need at most, and for nothing besides.
        self.budget = MAX_ROWS * shelf_capacity(max(MOSTS)) * SLOT_BYTES
        self.store = KVStore(CPU, self.budget)
        self.cache = RaggedCache(1, MAX_ROWS, **self.kind)
        self.account = self.store.open([self.cache])
        self.model: list[list[int]] = []
        self.most: list[int] = []
        self.next_token = 1

    def append(self, new: list[list[int]], first_slot: int = 0) -> None:
        self.cache.begin([len(tokens) for tokens in new], CPU, first_slot)
        flat = torch.tensor([t for tokens in new for t in tokens], dtype=torch.float32).view(1, 1, -1, 1)
        keys, values = self.cache.update(flat, -flat, 0)
        groups = self.cache.layout.groups
        for held in (keys, values):
            parts = held if isinstance(held, tuple) else (held,)
            assert [part.shape[0] for part in parts] == [group.n_rows for group in groups]

    def tokens(self, n: int) -> list[int]:
        self.next_token += n
        return list(range(self.next_token - n, self.next_token))

    @precondition(lambda self: len(self.model) < MAX_ROWS)
    @rule(n=st.sampled_from([1, 3, 120, 260, 500]), most=st.sampled_from(MOSTS), promised=st.booleans())
    def start(self, n: int, most: int, *, promised: bool) -> None:
        n = min(n, most)
        slot, tokens = len(self.model), self.tokens(n)
        if promised:
            assert self.account.make_room(1, most)
            self.account.trim()  # which leaves what was promised
            before = self.cache.n_bytes
        self.cache.start(slot, most)
        if promised and self.cache.kinds:
            assert self.cache.n_bytes == before
        self.append([tokens], slot)
        self.cache.commit([n], slot)
        self.model.append(tokens)
        self.most.append(most)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), most=st.sampled_from(MOSTS))
    def start_in_place(self, data: st.DataObject, most: int) -> None:
        slot = data.draw(st.integers(0, len(self.model) - 1))
        source = data.draw(st.integers(0, len(self.model) - 1))
        most = self.most[source] if slot == source else most
        length = data.draw(st.integers(0, min(len(self.model[source]), most)))
        self.cache.start(slot, most, length, source=source)
        self.model[slot] = self.model[source][:length]
        self.most[slot] = most

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def a_round(self, data: st.DataObject) -> None:
        room = [most - len(row) for most, row in zip(self.most, self.model, strict=True)]
        counts = [data.draw(st.sampled_from([n for n in (0, 1, 5, 150) if n <= most])) for most in room]
        if not any(counts):
            return
        new = [self.tokens(n) for n in counts]
        self.append(new)
        kept = [data.draw(st.integers(0, n)) for n in counts]
        if len(self.model) < MAX_ROWS and data.draw(st.booleans()):  # between the verify and its commit
            parent = data.draw(st.integers(0, len(self.model) - 1))
            self.cache.fork(parent, counts[parent])
            self.model.append(list(self.model[parent]))
            self.most.append(self.most[parent])
            new.append(new[parent])
            kept.append(data.draw(st.integers(0, counts[parent])))
        self.cache.commit(kept)
        self.model = [row + tokens[:n] for row, tokens, n in zip(self.model, new, kept, strict=True)]

    @precondition(lambda self: self.model and len(self.model) < MAX_ROWS)
    @rule(data=st.data())
    def copy_a_prompt(self, data: st.DataObject) -> None:
        source = data.draw(st.integers(0, len(self.model) - 1))
        length = data.draw(st.integers(0, len(self.model[source])))
        self.cache.start(len(self.model), self.most[source], length, source=source)
        self.model.append(self.model[source][:length])
        self.most.append(self.most[source])

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        slot = data.draw(st.integers(0, len(self.model) - 1))
        self.cache.drop(slot)
        last, most = self.model.pop(), self.most.pop()
        if slot < len(self.model):
            self.model[slot], self.most[slot] = last, most

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        slot = data.draw(st.integers(0, len(self.model) - 1))
        length = data.draw(st.integers(0, len(self.model[slot])))
        self.cache.rewind(slot, length)
        self.model[slot] = self.model[slot][:length]

    @rule()
    def trim(self) -> None:
        self.cache.trim()

    @invariant()
    def each_row_has_its_own_tokens(self) -> None:
        assert self.cache.lens == [len(row) for row in self.model]
        for slot, row in enumerate(self.model):
            if row:
                keys, values = self.cache.read(slot, 0, len(row)).values()
                assert keys[0, :, 0].tolist() == row
                assert values[0, :, 0].tolist() == [-token for token in row]

    @invariant()
    def no_more_bytes_than_there_are(self) -> None:
        assert self.cache.n_bytes <= self.budget


class KeptRows(Rows):
    """The same rows in buffers that keep their place, as graphs need them."""

    kind: ClassVar[dict[str, bool]] = {"keeps_place": True}

    @invariant()
    def rows_are_in_order(self) -> None:
        assert [row.index for row in self.cache._rows] == list(range(len(self.model)))


class RowsOfOneShelf(Rows):
    """The same rows where a model wants the keys of all of them in one tensor."""

    kind: ClassVar[dict[str, bool]] = {"one_shelf": True}

    @invariant()
    def there_is_one_shelf(self) -> None:
        assert len({id(row.shelf) for row in self.cache._rows}) <= 1


quick = settings(deadline=None, max_examples=25, stateful_step_count=20)
TestRows = Rows.TestCase
TestRows.settings = quick
TestKeptRows = KeptRows.TestCase
TestKeptRows.settings = quick
TestRowsOfOneShelf = RowsOfOneShelf.TestCase
TestRowsOfOneShelf.settings = quick


def test_a_shelf_holds_what_it_is_for_and_not_much_more() -> None:
    for n in range(1, 40_000, 37):
        assert n <= shelf_capacity(n) <= max((1.75 if n <= 2048 else 1.25) * n + 1, 384)
        assert shelf_capacity(n) == padded_slots(shelf_capacity(n)), "more memory than is counted"
    assert [shelf_capacity(n) for n in (1, 384, 385, 600, 1025, 2048, 2049)] == [384, 384, 512, 896, 1536, 2048, 2560]


def test_two_batches_share_what_there_is() -> None:
    store = KVStore(CPU, 3 * 384 * SLOT_BYTES)
    caches = [RaggedCache(1, MAX_ROWS) for _ in range(2)]
    one, other = (store.open([cache]) for cache in caches)
    caches[0].kinds["keys", 0] = torch.empty(2, 0, 1)  # what one batch has written, the other knows
    one.take("a", 2, 200)
    assert other.lacks(2, 200)
    assert not other.lacks(1, 200)
    assert not other.never_fits(2, 200), "it fits once the other has given back what it has"
    assert other.never_fits(4, 200)
    one.give_back("a")
    assert not other.lacks(2, 200)


@pytest.mark.parametrize(("kind", "fits"), [({}, True), ({"one_shelf": True}, False), ({"keeps_place": True}, False)])
def test_a_long_row_counts_for_all_rows_only_where_they_share_a_shelf(kind: dict[str, bool], fits: bool) -> None:
    store = KVStore(CPU, (4 * 384 + 2048) * SLOT_BYTES)
    cache = RaggedCache(1, MAX_ROWS, **kind)
    account = store.open([cache])
    cache.kinds["keys", 0] = torch.empty(2, 0, 1)
    account.take("short", 4, 200)
    assert account.lacks(1, 2000) is not fits
    assert not account.lacks(1, 200)


def test_a_cache_that_keeps_its_place_takes_more_rows_than_it_was_made_for() -> None:
    cache = RaggedCache(1, 2, keeps_place=True)
    for row in range(4):
        cache.start(row, 8)
        cache.begin([1], CPU, row)
        cache.update(torch.full((1, 1, 1, 1), float(row)), torch.zeros(1, 1, 1, 1), 0)
        cache.commit([1], row)
    assert [float(cache.read(row, 0, 1)["keys", 0]) for row in range(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize("change", ["rows", "capacity"])
def test_whoever_keeps_addresses_is_told_when_buffers_move(change: str) -> None:
    cache = RaggedCache(1, 2, keeps_place=True, capacity_step=64)
    cache.start(0, 10)
    before = cache.n_moves
    cache.start(1, 64)
    assert cache.n_moves == before
    cache.start(2, 64 if change == "rows" else 65)
    assert cache.n_moves > before
