"""A cache whose keys do not wait for each other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.core.versioned_cache import VersionedCache


def test_a_computation_blocks_neither_other_keys_nor_what_is_known_of_its_own():
    cache: VersionedCache[str, int] = VersionedCache(4)
    begun, may_end = threading.Event(), threading.Event()

    def slow() -> int:
        begun.set()
        assert may_end.wait(60)
        return 1

    with ThreadPoolExecutor(2) as pool:
        cold = pool.submit(cache.get, "slow", 1, slow)
        assert begun.wait(60)
        other = pool.submit(cache.get, "quick", 1, lambda: 2)
        assert other.result(60) == 2
        may_end.set()
        assert cold.result(60) == 1


def test_threads_that_ask_for_one_key_share_a_single_computation():
    cache: VersionedCache[str, int] = VersionedCache(4)
    computed: list[int] = []
    all_ask = threading.Barrier(4)

    def ask() -> int:
        all_ask.wait(60)
        return cache.get("key", 1, lambda: computed.append(1) or len(computed))

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask) for _ in range(4)]
    assert [one.result() for one in asked] == [1] * 4
    assert computed == [1]


def test_a_value_is_replaced_when_its_version_changes_unless_it_is_still_good():
    cache: VersionedCache[str, str] = VersionedCache(4)
    assert cache.get("key", 1, lambda: "old") == "old"
    assert cache.get("key", 1, lambda: "new") == "old"
    assert cache.get("key", 2, lambda: "new", still_good=lambda value: value == "old") == "old"
    assert cache.get("key", 2, lambda: "new") == "new"


def test_the_keys_used_last_stay():
    cache: VersionedCache[int, int] = VersionedCache(2)
    for key in (1, 2, 1, 3):
        cache.get(key, 0, lambda key=key: key)
    assert [cache.get(key, 0, lambda: 0) for key in (1, 3, 2)] == [1, 3, 0]


def test_a_computation_that_fails_leaves_nothing_and_is_tried_again():
    cache: VersionedCache[str, int] = VersionedCache(2)
    cache.get("key", 1, lambda: 1)
    with pytest.raises(ZeroDivisionError):
        cache.get("key", 2, lambda: 1 // 0)
    assert cache.get("key", 2, lambda: 2) == 2
