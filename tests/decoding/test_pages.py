"""Rows start, grow, fork, share, move and go in any order, and each keeps its own tokens; no page is lost or given back
twice."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from decoding.memory.cache import RaggedCache
from decoding.memory.pages import OutOfPagesError, PagePool
from decoding.memory.store import KVStore, MemoryNeed
from tests.decoding.conftest import held
from tests.thorough import scale_examples

CPU = torch.device("cpu")
TOKEN_BYTES = 2 * 4  # a key and a value, one number of four bytes each
MOST, MAX_ROWS = 60, 6


class Rows(RuleBasedStateMachine):
    """A cache of one layer beside a plain list of the tokens of each row. Texts repeat, so that prompts are known."""

    page_size: ClassVar[int] = 4

    def __init__(self) -> None:
        super().__init__()
        # Rows of the most tokens, and one page for each that is copied while its source still has it.
        n_pages = MAX_ROWS * (MOST // self.page_size + 2)
        self.pool = PagePool(n_pages, self.page_size, max_idle=5)
        self.cache = RaggedCache(1, MAX_ROWS, self.pool, CPU, max_tokens=MOST)
        self.model: list[list[int]] = []
        self.aside: list[list[int]] = []
        self.next_token = 1

    @property
    def n_rows(self) -> int:
        return len(self.model) + len(self.aside)

    def append(self, new: list[list[int]], first_row: int = 0) -> None:
        self.cache.begin([len(tokens) for tokens in new], first_row)
        flat = torch.tensor([t for tokens in new for t in tokens], dtype=torch.float32).view(1, 1, -1, 1)
        self.cache.update(flat, -flat, 0)

    def tokens(self, n: int) -> list[int]:
        self.next_token += n
        return list(range(self.next_token - n, self.next_token))

    @precondition(lambda self: self.n_rows < MAX_ROWS)
    @rule(n=st.integers(1, 30), text=st.integers(0, 2), known=st.booleans())
    def admit(self, n: int, text: int, *, known: bool) -> None:
        """A prompt of one of three texts, which may begin with what is known of it, and is kept."""
        row, tokens = len(self.model), [1000 * text + t for t in range(n)]
        self.cache.start(row, MOST)
        n_known = self.cache.restore(row, tokens) if known else 0
        assert n_known % self.page_size == 0
        if n_known < n:
            self.append([tokens[n_known:]], row)
            self.cache.commit([n - n_known], row)
        if known:
            self.cache.keep(row, tokens)
            assert self.cache.n_known(tokens) == n // self.page_size * self.page_size
        self.model.append(tokens)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def share_a_prompt(self, data: st.DataObject) -> None:
        """A new row, or one in place of a finished one, which begins with the tokens of another or of itself."""
        source = data.draw(st.integers(0, len(self.model) - 1))
        row = data.draw(st.integers(0, len(self.model) if self.n_rows < MAX_ROWS else len(self.model) - 1))
        length = data.draw(st.integers(0, len(self.model[source])))
        self.cache.start(row, MOST, length, source=source)
        self.model[row : row + 1] = [self.model[source][:length]]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def a_round(self, data: st.DataObject) -> None:
        counts = [data.draw(st.sampled_from([n for n in (0, 1, 3, 9) if len(row) + n <= MOST])) for row in self.model]
        if not any(counts):
            return
        new = [self.tokens(n) for n in counts]
        self.append(new)
        kept = [data.draw(st.integers(0, n)) for n in counts]
        if self.n_rows < MAX_ROWS and data.draw(st.booleans()):  # between the verify and its commit
            parent = data.draw(st.integers(0, len(self.model) - 1))
            self.cache.fork(parent, counts[parent])
            self.model.append(list(self.model[parent]))
            new.append(new[parent])
            kept.append(data.draw(st.integers(0, counts[parent])))
        self.cache.commit(kept)
        self.model = [row + tokens[:n] for row, tokens, n in zip(self.model, new, kept, strict=True)]

    @precondition(lambda self: self.model)
    @rule(n=st.integers(1, 9), T=st.integers(9, 12))
    def a_captured_round(self, n: int, T: int) -> None:
        """Each row is padded to T tokens, and there are rows that nobody has; none of that may harm anyone."""
        if any(len(row) + n > MOST for row in self.model):
            return
        self.cache.prepare([n] * len(self.model))
        row = torch.arange(MAX_ROWS).repeat_interleave(T)
        lens = torch.tensor([*self.cache.lens, *[0] * (MAX_ROWS - len(self.model))])
        slots = self.cache.find_slots(row, (lens[:, None] + torch.arange(T)).flatten())
        new = [[*self.tokens(n), *[-7] * (T - n)] if r < len(self.model) else [-7] * T for r in range(MAX_ROWS)]
        values = torch.tensor(new, dtype=torch.float32).flatten()[:, None, None]
        self.cache.scatter(
            self.pool.buffer(("keys", 0), values), self.pool.buffer(("values", 0), values), values, -values, slots
        )
        self.cache.commit([n] * len(self.model))
        self.model = [row + tokens[:n] for row, tokens in zip(self.model, new, strict=False)]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        row = data.draw(st.integers(0, len(self.model) - 1))
        self.cache.drop(row)
        self.take_out(row)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def set_aside(self, data: st.DataObject) -> None:
        row = data.draw(st.integers(0, len(self.model) - 1))
        self.cache.set_aside(row)
        self.aside.append(self.take_out(row))

    @precondition(lambda self: self.aside)
    @rule()
    def put_back(self) -> None:
        self.cache.put_back()
        self.model.append(self.aside.pop())

    def take_out(self, row: int) -> list[int]:
        taken, last = self.model[row], self.model.pop()
        if row < len(self.model):
            self.model[row] = last
        return taken

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        row = data.draw(st.integers(0, len(self.model) - 1))
        length = data.draw(st.integers(0, len(self.model[row])))
        self.cache.rewind(row, length)
        self.model[row] = self.model[row][:length]

    @rule()
    def finish_all(self) -> None:
        self.cache.clear()
        self.pool.trim()
        self.model.clear()
        self.aside.clear()

    @invariant()
    def each_row_has_its_own_tokens(self) -> None:
        assert self.cache.lens == [len(row) for row in self.model]
        for r, row in enumerate(self.model):
            if row:
                keys, values = held(self.cache, r, len(row)).values()
                assert keys[:, 0, 0].tolist() == row
                assert values[:, 0, 0].tolist() == [-token for token in row]

    @invariant()
    def what_no_row_has_stays_zero(self) -> None:
        assert not any(buffer[0].any() for buffer in self.pool.buffers.values())

    @invariant()
    def no_page_is_lost_or_counted_twice(self) -> None:
        references = Counter(page for pages in self.cache.list_pages() for page in pages)
        assert 0 not in references
        assert all(self.pool._references[page] == n for page, n in references.items())
        assert self.pool.n_used == len(references)
        assert len(self.pool._idle) <= 5

    @invariant()
    def attention_sees_the_pages_of_each_row(self) -> None:
        for r in range(MAX_ROWS):
            pages = list(self.cache.list_pages()[r]) if r < len(self.model) else []
            shown = self.cache.table.pages[r].tolist()
            assert shown == pages + [0] * (len(shown) - len(pages))

    def teardown(self) -> None:
        self.cache.clear()
        assert self.pool.n_used == 0
        taken = [self.pool.take() for _ in range(self.pool.n_pages)]
        assert len(set(taken)) == self.pool.n_pages
        with pytest.raises(OutOfPagesError):
            self.pool.take()


class RowsOfLongPages(Rows):
    """The same rows in pages that are longer than most of them."""

    page_size = 16


quick = settings(deadline=None, max_examples=scale_examples(25), stateful_step_count=20)
TestRows = Rows.TestCase
TestRows.settings = quick
TestRowsOfLongPages = RowsOfLongPages.TestCase
TestRowsOfLongPages.settings = quick


def write(cache: RaggedCache, values: list[list[float]]) -> None:
    """Append one number per token to each row, as keys and values of one head of width 1."""
    cache.begin([len(row) for row in values])
    flat = torch.tensor([x for row in values for x in row], dtype=torch.float32).view(1, 1, -1, 1)
    cache.update(flat, -flat, 0)


def row(cache: RaggedCache, r: int) -> list[float]:
    keys, values = held(cache, r, cache.lens[r]).values()
    assert torch.equal(keys, -values)
    return keys[:, 0, 0].tolist()


def made(n_rows: int, page_size: int = 4, n_pages: int = 200) -> RaggedCache:
    return RaggedCache(1, n_rows, PagePool(n_pages, page_size), CPU)


def prefilled(n_rows: int, capacity: int = 16) -> RaggedCache:
    cache = made(n_rows)
    cache.start(0, capacity)
    write(cache, [[1, 2, 3]])
    cache.commit([3])
    for r in range(1, n_rows):
        cache.start(r, capacity, 3, source=0)
    return cache


def test_a_row_has_the_pages_of_its_tokens_whatever_the_others_have() -> None:
    cache = prefilled(3)
    cache.drop(2)
    cache.start(1, 500)
    cache.start(2, 16, 2, source=0)
    write(cache, [[4], [float(i) for i in range(300)], [6]])
    cache.commit([1, 300, 1])
    assert [row(cache, r) for r in range(3)] == [[1, 2, 3, 4], [*map(float, range(300))], [1, 2, 6]]
    assert [len(cache.list_pages()[r]) for r in range(3)] == [1, 75, 1]


def test_rows_of_one_prompt_share_its_pages_and_copy_the_one_they_write_to() -> None:
    cache = made(3)
    cache.start(0, 30)
    write(cache, [[1, 2, 3, 4, 5, 6]])
    cache.commit([6])
    for r in (1, 2):
        cache.start(r, 30, 6, source=0)
    assert cache.pool.n_used == 2
    write(cache, [[7], [8], []])
    cache.commit([1, 1, 0])
    assert [row(cache, r) for r in range(3)] == [[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 8], [1, 2, 3, 4, 5, 6]]
    assert cache.pool.n_used == 4
    assert len({cache.list_pages()[r][0] for r in range(3)}) == 1
    cache.clear()
    assert cache.pool.n_used == 0


def test_nothing_of_a_row_is_written_to_a_page_that_has_another_owner() -> None:
    """A rewound row leaves the pages past its end to the rows that share them, also where a captured round pads it."""
    cache = made(2)
    cache.start(0, 30)
    write(cache, [[1, 2, 3, 4, 5, 6]])
    cache.commit([6])
    cache.fork(0)
    cache.rewind(0, 3)
    cache.prepare([1, 1])
    slots = cache.find_slots(torch.zeros(8, dtype=torch.int64), torch.arange(3, 11))
    assert not set((slots // 4).tolist()) & set(cache.list_pages()[1])
    assert row(cache, 1) == [1, 2, 3, 4, 5, 6]


def test_a_pool_without_pages_refuses_and_loses_none() -> None:
    cache = made(1, n_pages=2)
    cache.start(0, 30)
    with pytest.raises(OutOfPagesError, match="all 2 pages"):
        write(cache, [[float(i) for i in range(9)]])
    cache.clear()
    assert cache.pool.n_free == 2


def test_a_full_cache_refuses_rather_than_overwrites() -> None:
    cache = prefilled(1, capacity=4)
    with pytest.raises(RuntimeError, match="cache overflow: 5 tokens, capacity 4"):
        write(cache, [[4, 5]])


def prompt(pool: PagePool, tokens: list[int]) -> int:
    """Let a row have a prompt that is kept, and end; return how many tokens were known."""
    cache = RaggedCache(1, 1, pool, CPU)
    cache.start(0, len(tokens))
    n_known = cache.restore(0, tokens)
    cache.prepare([len(tokens) - n_known])
    cache.commit([len(tokens) - n_known])
    cache.keep(0, tokens)
    cache.clear()
    return n_known


def test_the_beginning_of_a_prompt_stays_longer_than_its_end_and_the_oldest_prompt_goes_first() -> None:
    pool = PagePool(20, 4, max_idle=4)
    old, new = [1] * 12, [2] * 8
    assert [prompt(pool, each) for each in (old, old, new, new)] == [0, 12, 0, 8]
    assert prompt(pool, old) == 8, "its last page made room"
    assert prompt(pool, [3] * 40) == 0
    assert prompt(pool, [3] * 40) == 16, "a prompt that does not fit leaves its beginning"


def test_pages_of_earlier_prompts_go_once_rows_need_them_and_not_before() -> None:
    pool = PagePool(6, 4)
    assert [prompt(pool, [1] * 12), prompt(pool, [2] * 8)] == [0, 0]
    using = RaggedCache(1, 2, pool, CPU)
    using.start(0, 24)
    assert using.restore(0, [2] * 8) == 8
    using.prepare([16])
    assert using.n_known([2] * 8) == 8, "it is in use"
    assert using.n_known([1] * 12) == 0


def test_memory_of_pages_that_no_row_has_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decoding.memory.pages._KEPT_BYTES", 0)
    pool = PagePool(100, 64)
    pool.buffer("keys", torch.empty(2, 0, 64))
    cache = RaggedCache(1, 1, pool, CPU)
    cache.start(0, 3000)
    cache.prepare([3000])
    pool.buffers["keys"][:] = 1
    before = pool.n_bytes
    cache.clear()
    pool.trim()
    assert pool.n_bytes < before / 20
    assert not pool.buffers["keys"][1:].any()


def two_accounts(n_pages: int) -> tuple[KVStore, list[RaggedCache]]:
    store = KVStore(CPU, 64, n_pages * 64 * TOKEN_BYTES)
    (pool,) = store.divide([{"keys": torch.empty(2, 0, 1)}], 10**6, 0)
    return store, [RaggedCache(1, MAX_ROWS, pool, CPU) for _ in range(2)]


def test_two_batches_share_what_there_is() -> None:
    store, caches = two_accounts(12)
    one, other = (store.open([cache]) for cache in caches)
    one.take("a", MemoryNeed(2, 200))
    assert other.lacks(MemoryNeed(2, 200))
    assert not other.lacks(MemoryNeed(1, 200))
    assert not other.never_fits(MemoryNeed(2, 200)), "it fits once the other has given back what it has"
    assert other.never_fits(MemoryNeed(4, 200))
    one.give_back("a")
    assert not other.lacks(MemoryNeed(2, 200))


def test_a_prompt_is_counted_once_for_all_rows_and_what_rows_have_is_not_counted_again() -> None:
    store, (cache, _) = two_accounts(12)
    account = store.open([cache])
    need = MemoryNeed(4, 400, 330)  # seven pages each, of which five are the prompt's
    assert account.n_pages(need) == 5 + 4 * 2
    assert account.never_fits(need)
    assert account.fitting_tokens(need) == 384, "with a prompt of 314 tokens"
    account.owners = lambda: ["a"] * 3
    account.take("a", MemoryNeed(3, 400, 330))
    cache.start(0, 400)
    cache.prepare([330])
    cache.commit([330])
    for row in (1, 2):
        cache.start(row, 400, 330, source=0)
    assert not account.lacks(MemoryNeed(1, 64))
    assert account.lacks(MemoryNeed(1, 65))
    cache.prepare([70, 70, 70])
    assert not account.lacks(MemoryNeed(1, 64))


def test_tokens_of_an_earlier_prompt_that_others_use_are_not_counted_again() -> None:
    store, (cache, _) = two_accounts(12)
    account = store.open([cache])
    rows: list[str] = []
    account.owners = lambda: rows
    for row, owner in enumerate("ab"):
        account.take(owner, MemoryNeed(1, 384))
        rows.append(owner)
        cache.start(row, 384)
        n_known = cache.restore(row, [7] * 320)
        cache.prepare([320 - n_known] if row == 0 else [0, 0])
        cache.commit([320 - n_known], row)
        cache.keep(row, [7] * 320)
    assert cache.pool.n_used == 5
    assert not account.lacks(MemoryNeed(1, 5 * 64))
    assert account.lacks(MemoryNeed(1, 5 * 64 + 1))
