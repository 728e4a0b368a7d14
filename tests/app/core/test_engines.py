"""Engines stay in memory as far as they fit; least recently used first out, and none that is in use."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.engines import EnginePool
from app.core.ports import EngineMemory
from decoding.config import EngineConfig
from decoding.models.errors import NoMemoryError
from tests.fakes import FakeEngine

SMALL, LARGE = EngineConfig(target="smollm2-135m"), EngineConfig(target="qwen2.5-coder-0.5b")
SMALL_AGAIN = EngineConfig(target="smollm2-135m", drafter="none")  # the same weights


class SizedEngine(FakeEngine):
    """An engine that takes `parts`."""

    def __init__(self, parts: Mapping[object, int]) -> None:
        super().__init__()
        self.parts = parts

    def count_memory(self) -> dict[object, int]:
        return dict(self.parts)


@dataclass
class Memory:
    """A device with room for `bytes`, where each configuration takes what `sizes` says; `unknown` ones are not told."""

    bytes: int
    sizes: Mapping[EngineConfig, Mapping[object, int]]
    unknown: set[EngineConfig] = field(default_factory=set)
    releases: int = 0

    def compute_limit(self, config: EngineConfig) -> int:
        return self.bytes

    def estimate_parts(self, config: EngineConfig) -> Mapping[object, int] | None:
        return None if config in self.unknown else self.sizes[config]

    def release(self) -> None:
        self.releases += 1

    def load(self, config: EngineConfig) -> Callable[[], SizedEngine]:
        return lambda: SizedEngine(self.sizes[config])


def weights(**changes: int) -> dict[EngineConfig, dict[object, int]]:
    """Sizes of the three configurations: the weights of two models, and 1 byte that each engine keeps."""
    small, large = ({"small": 10, "large": 50} | changes).values()
    return {
        SMALL: {"small": small, SMALL: 1},
        SMALL_AGAIN: {"small": small, SMALL_AGAIN: 1},
        LARGE: {"large": large, LARGE: 1},
    }


def total(parts: list[Mapping[object, int]]) -> int:
    return sum({name: n for each in parts for name, n in each.items()}.values())


def not_again() -> FakeEngine:
    pytest.fail("loaded twice")


def test_engines_that_fit_are_loaded_once_and_switched_at_no_cost() -> None:
    memory = Memory(63, weights())
    engines = EnginePool(memory)
    first = {config: engines.get(config, memory.load(config)) for config in memory.sizes}
    for config in (LARGE, SMALL, SMALL_AGAIN, LARGE):
        assert engines.get(config, not_again) is first[config]
    assert engines.list_configs() == set(memory.sizes)
    assert engines.describe_loaded() == (["qwen2.5-coder-0.5b", "smollm2-135m"], "fake")
    assert memory.releases == 0


def test_the_engine_used_longest_ago_is_let_go_before_another_is_loaded() -> None:
    memory = Memory(61, weights())
    engines = EnginePool(memory)
    gone = weakref.ref(engines.get(SMALL, memory.load(SMALL)))

    def load() -> SizedEngine:
        assert gone() is None
        assert memory.releases == 1
        assert (engines.describe_loaded(), engines.get_loading_target()) == (None, "qwen2.5-coder-0.5b")
        return memory.load(LARGE)()

    engines.get(LARGE, load)
    assert (engines.list_configs(), engines.get_loading_target()) == ({LARGE}, None)


def test_an_engine_larger_than_expected_makes_room_once_its_size_is_known() -> None:
    memory = Memory(30, weights(large=10))
    engines = EnginePool(memory)
    engines.get(SMALL, memory.load(SMALL))
    engines.get(LARGE, lambda: SizedEngine({"large": 25}))
    assert engines.list_configs() == {LARGE}
    assert not engines.fits([SMALL, LARGE])


def test_all_others_go_before_a_model_of_unknown_size() -> None:
    memory = Memory(1000, weights(), unknown={LARGE})
    engines = EnginePool(memory)
    for config in (SMALL, SMALL_AGAIN, LARGE):
        engines.get(config, memory.load(config))
    assert engines.list_configs() == {LARGE}
    engines.get(SMALL, memory.load(SMALL))
    assert engines.list_configs() == {SMALL, LARGE}


def test_whether_engines_fit_together_is_told_before_and_after_they_are_loaded() -> None:
    memory = Memory(61, weights(), unknown={LARGE})
    engines = EnginePool(memory)
    assert engines.fits([SMALL, SMALL_AGAIN])
    assert engines.fits([SMALL, LARGE])  # as far as is known
    engines.get(LARGE, memory.load(LARGE))
    assert not engines.fits([SMALL, LARGE])
    assert engines.fits([LARGE])
    engines.get(SMALL, memory.load(SMALL))
    assert not engines.fits([SMALL, LARGE])


def test_out_of_memory_lets_all_others_go_and_tries_once_more() -> None:
    memory = Memory(1000, weights())
    engines = EnginePool(memory)
    alive = [weakref.ref(engines.get(config, memory.load(config))) for config in (SMALL, SMALL_AGAIN)]
    tries = []

    def load() -> SizedEngine:
        tries.append([engine() is not None for engine in alive])
        if any(tries[-1]):
            raise NoMemoryError("memory has run out")
        return memory.load(LARGE)()

    engines.get(LARGE, load)
    assert tries == [[True, True], [False, False]]
    assert engines.list_configs() == {LARGE}
    assert not engines.fits([SMALL, LARGE])
    assert engines.fits([SMALL, SMALL_AGAIN])


@pytest.mark.parametrize("other", [None, SMALL])
def test_an_engine_that_cannot_be_loaded_is_not_held(other: EngineConfig | None) -> None:
    memory = Memory(1000, weights())
    engines = EnginePool(memory)
    if other:
        engines.get(other, memory.load(other))
    tries = []

    def fail() -> FakeEngine:
        tries.append(engines.get_loading_target())
        raise NoMemoryError("memory has run out")

    with pytest.raises(NoMemoryError):
        engines.get(LARGE, fail)
    assert tries == ["qwen2.5-coder-0.5b"] * (2 if other else 1)
    assert (engines.list_configs(), engines.describe_loaded(), engines.get_loading_target()) == (set(), None, None)


def test_another_error_while_loading_passes_and_the_others_stay() -> None:
    memory = Memory(1000, weights())
    engines = EnginePool(memory)
    engines.get(SMALL, memory.load(SMALL))

    def fail() -> FakeEngine:
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        engines.get(LARGE, fail)
    assert (engines.list_configs(), engines.get_loading_target()) == ({SMALL}, None)


def test_each_thread_has_its_own_and_what_another_works_with_is_never_let_go() -> None:
    memory = Memory(0, weights())
    engines = EnginePool(memory)
    mine = engines.get(SMALL, memory.load(SMALL))
    theirs: list[FakeEngine] = []

    def work() -> None:
        assert engines.list_configs() == set()
        assert engines.describe_loaded() == (["smollm2-135m"], "fake")
        theirs.append(engines.get(SMALL, memory.load(SMALL)))
        theirs.append(engines.get(LARGE, memory.load(LARGE)))
        assert engines.list_configs() == {LARGE}
        engines.drop()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert theirs[0] is not mine
    assert engines.get(SMALL, not_again) is mine
    engines.drop()
    assert (engines.list_configs(), engines.describe_loaded()) == (set(), None)


CONFIGS = [EngineConfig(target=f"./model{i}", drafter=drafter) for i in range(3) for drafter in ("none", "ngram")]


@given(
    limit=st.integers(0, 60),
    n_weights=st.lists(st.integers(1, 30), min_size=3, max_size=3),
    n_kept=st.lists(st.integers(1, 9), min_size=6, max_size=6),
    unknown=st.sets(st.sampled_from(CONFIGS)),
    wanted=st.lists(st.sampled_from(CONFIGS), max_size=20),
)
def test_the_limit_holds_for_all_but_the_needed_engine_and_the_oldest_go_first(
    limit: int, n_weights: list[int], n_kept: list[int], unknown: set[EngineConfig], wanted: list[EngineConfig]
) -> None:
    sizes = {
        config: {config.target: n_weights[i // 2], config: n_kept[i]} for i, config in enumerate(CONFIGS)
    }  # two engines share each model
    memory = Memory(limit, sizes, unknown)
    engines = EnginePool(memory)
    by_age: list[EngineConfig] = []  # the last used first
    for config in wanted:
        before = engines.list_configs()
        loaded = []
        engines.get(config, lambda config=config, loaded=loaded: loaded.append(config) or memory.load(config)())
        held = engines.list_configs()
        by_age = [config, *(each for each in by_age if each != config)]

        assert bool(loaded) == (config not in before)
        assert config in held
        assert held <= before | {config}
        if loaded:
            assert total([sizes[each] for each in held]) <= limit or held == {config}
        if before | {config} != held:
            assert loaded, "an engine went although none was loaded"
            youngest_gone = min(by_age.index(each) for each in before - held)
            assert all(by_age.index(each) < youngest_gone for each in held), "an older one stayed"
        if total([sizes[each] for each in before | {config}]) <= limit and config not in unknown:
            assert held == before | {config}, "one went although all fitted"


def test_the_setting_is_the_limit_and_auto_a_share_of_the_memory() -> None:
    assert EngineMemory(8 << 30).compute_limit(SMALL) == 8 << 30
    assert EngineMemory(0).compute_limit(SMALL) == 0
    assert 1 << 20 < EngineMemory(None).compute_limit(EngineConfig(target="m", device="cpu")) < 1 << 50


def test_a_remote_engine_takes_nothing_and_a_model_that_is_not_here_is_unknown(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path))
    memory = EngineMemory(None)
    assert memory.estimate_parts(EngineConfig(target="openai:m@http://127.0.0.1:9/v1", drafter="none")) == {}
    assert memory.estimate_parts(SMALL) is None
    assert memory.estimate_parts(EngineConfig(target="./nowhere")) is None
