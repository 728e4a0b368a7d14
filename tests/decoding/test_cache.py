"""Every row of the cache has its own length, and what is not committed is as if it had never been."""

import pytest
import torch

from decoding.memory.cache import RaggedCache
from decoding.memory.pages import OutOfPagesError, PagePool
from tests.decoding.conftest import held

CPU = torch.device("cpu")


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


def test_rows_advance_by_their_own_number_of_tokens() -> None:
    cache = prefilled(3)
    write(cache, [[4, 5, 6], [4], [4, 5]])
    cache.commit([2, 1, 0])
    assert [row(cache, r) for r in range(3)] == [[1, 2, 3, 4, 5], [1, 2, 3, 4], [1, 2, 3]]


def test_the_next_round_overwrites_what_was_rejected() -> None:
    cache = prefilled(2)
    write(cache, [[9, 9, 9], [9, 9, 9]])
    cache.commit([0, 1])
    write(cache, [[4], [5]])
    cache.commit([1, 1])
    assert [row(cache, r) for r in range(2)] == [[1, 2, 3, 4], [1, 2, 3, 9, 5]]


def test_a_dropped_row_is_replaced_by_the_last() -> None:
    cache = prefilled(3)
    write(cache, [[4], [5], [6, 7]])
    cache.commit([1, 1, 2])
    cache.drop(0)
    assert [row(cache, r) for r in range(2)] == [[1, 2, 3, 6, 7], [1, 2, 3, 5]]
    cache.drop(1)
    assert [row(cache, r) for r in range(1)] == [[1, 2, 3, 6, 7]]


def test_a_fork_takes_along_what_is_not_yet_committed() -> None:
    cache = made(2)
    cache.start(0, 16)
    write(cache, [[1, 2, 3]])
    cache.fork(0, 3)
    cache.commit([1, 3])
    assert [row(cache, r) for r in range(2)] == [[1], [1, 2, 3]]


def test_a_row_begins_beside_others_that_sit_out() -> None:
    cache = prefilled(3)
    cache.drop(2)
    cache.start(2, 16)
    cache.begin([2], first_row=2)
    flat = torch.tensor([7.0, 8.0]).view(1, 1, -1, 1)
    cache.update(flat, -flat, 0)
    cache.commit([2], first_row=2)
    assert [row(cache, r) for r in range(3)] == [[1, 2, 3], [1, 2, 3], [7, 8]]


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


def test_rows_that_are_gone_have_no_slots() -> None:
    cache = prefilled(3)
    cache.drop(0)
    rows, first = torch.arange(3), torch.zeros(3, dtype=torch.int64)
    assert cache.find_slots(rows, first).tolist() == [4 * cache.list_pages()[0][0], 4 * cache.list_pages()[1][0], -1]


def test_a_pool_without_pages_refuses_and_loses_none() -> None:
    cache = made(1, n_pages=2)
    cache.start(0, 30)
    with pytest.raises(OutOfPagesError, match="all 2 pages"):
        write(cache, [[float(i) for i in range(9)]])
    cache.clear()
    assert cache.pool.n_free == 2


def test_a_row_in_place_of_another_keeps_what_it_copied() -> None:
    cache = prefilled(3)
    write(cache, [[], [4], []])
    cache.commit([0, 1, 0])
    cache.start(0, 16, 4, source=1)
    assert [row(cache, r) for r in range(3)] == [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3]]


def test_a_rewound_row_starts_again_from_its_prompt() -> None:
    cache = prefilled(1)
    write(cache, [[4, 5]])
    cache.commit([2])
    cache.rewind(0, 3)
    assert row(cache, 0) == [1, 2, 3]


def test_a_full_cache_refuses_rather_than_overwrites() -> None:
    cache = prefilled(1, capacity=4)
    with pytest.raises(RuntimeError, match="cache overflow: 5 tokens, capacity 4"):
        write(cache, [[4, 5]])
