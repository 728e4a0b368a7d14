"""Every row of the cache has its own length, and what is not committed is as if it had never been."""

import pytest
import torch

from decoding.memory.cache import RaggedCache

CPU = torch.device("cpu")


def write(cache: RaggedCache, values: list[list[float]]) -> None:
    """Append one number per token to each row, as keys and values of one head of width 1."""
    cache.begin([len(row) for row in values], CPU)
    flat = torch.tensor([x for row in values for x in row], dtype=torch.float32).view(1, 1, -1, 1)
    cache.update(flat, -flat, 0)


def row(cache: RaggedCache, r: int) -> list[float]:
    keys, values = cache.read(r, 0, cache.lens[r]).values()
    assert torch.equal(keys, -values)
    return keys[0, :, 0].tolist()


def prefilled(n_rows: int, capacity: int = 16) -> RaggedCache:
    cache = RaggedCache(1, n_rows)
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
    cache = RaggedCache(1, 2)
    cache.start(0, 16)
    write(cache, [[1, 2, 3]])
    cache.fork(0, 3)
    cache.commit([1, 3])
    assert [row(cache, r) for r in range(2)] == [[1], [1, 2, 3]]


def test_a_row_begins_beside_others_that_sit_out() -> None:
    cache = prefilled(3)
    cache.drop(2)
    cache.start(2, 16)
    cache.begin([2], CPU, first_slot=2)
    flat = torch.tensor([7.0, 8.0]).view(1, 1, -1, 1)
    keys, _ = cache.update(flat, -flat, 0)
    assert keys.shape[0] == 1
    cache.commit([2], first_slot=2)
    assert [row(cache, r) for r in range(3)] == [[1, 2, 3], [1, 2, 3], [7, 8]]


def test_rows_that_may_become_longer_than_others_lie_in_a_shelf_of_their_own() -> None:
    cache = prefilled(2)
    cache.start(1, 500)
    cache.start(2, 16, 2, source=0)
    write(cache, [[4], [float(i) for i in range(300)], [6]])
    cache.commit([1, 300, 1])
    assert [row(cache, r) for r in range(3)] == [[1, 2, 3, 4], [*map(float, range(300))], [1, 2, 6]]
    assert [cache._rows[r].shelf.capacity for r in range(3)] == [384, 512, 384]


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
