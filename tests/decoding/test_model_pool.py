"""Engines with one target share its weights: loaded once, freed with the last, and no engine disturbs another."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from decoding import prepare
from decoding.checks import measurements
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models import loading, packing
from decoding.models.errors import NoMemoryError
from decoding.request import Completion, Request, SamplingParams
from tests.decoding.conftest import SaveModel, disturbed, skip_where_products_depend_on_the_batch, tiny_qwen2

pytestmark = pytest.mark.slow

PROMPTS = ("def add(a, b):\n    return a + b\n" * 2, "x = 1\n" * 9, "print(2)\n" * 5)
ONCE = ("load", "select_attention", "prepack", "is_batch_invariant", "measure_verify_cost")
"""What `decoding.prepare` or `decoding.checks.measurements` does once for each model, by the name it is called by."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the engine did each of `ONCE`."""
    counted: Counter[str] = Counter()

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:  # unlike a Mock, it keeps no argument in memory
            counted[name] += 1
            return function(*arguments)

        return call

    for name in ONCE:
        module = next(each for each in (prepare, packing, measurements) if hasattr(each, name))
        monkeypatch.setattr(module, name, counting(name, getattr(module, name)))
    return counted


def configs(target: str, draft: str) -> list[EngineConfig]:
    """Configurations of one target that differ in all that may differ between engines which share it."""
    make = {"target": target, "dtype": "float32", "device": "cpu"}
    return [
        EngineConfig(**make, drafter="none", draft_length="fixed:0", max_batch=2),
        EngineConfig(**make, drafter="sibling", draft_length="goodput"),
        EngineConfig(**make, drafter=draft, draft_length="fixed:3", acceptance="maximal", max_batch=5),
        EngineConfig(**make, drafter=f"ngram+{draft}", draft_length="bass", max_batch=8),
    ]


def requests(seed: int) -> list[Request]:
    sampling = SamplingParams(temperature=0.8, top_p=0.95)
    return [Request(prompt, n=3, sampling=sampling, seed=seed, max_new_tokens=16) for prompt in PROMPTS]


def texts(outcomes: list[tuple[int, Completion]]) -> dict[int, list[tuple[str, float]]]:
    return {position: [(s.text, s.mean_logprob) for s in done.samples] for position, done in outcomes}


def taking_turns(iterators: list[Iterator[tuple[int, Completion]]]) -> list[list[tuple[int, Completion]]]:
    """All items of each, taken one by one in turn, so that every batch is open while the others work."""
    rounds = itertools.zip_longest(*iterators)
    return [[item for item in column if item is not None] for column in zip(*rounds, strict=True)]


@pytest.mark.thorough
def test_engines_that_share_a_target_write_what_each_writes_alone(save_model: SaveModel) -> None:
    skip_where_products_depend_on_the_batch(torch.float32)
    target, draft = save_model(tiny_qwen2()), save_model(disturbed(tiny_qwen2(), 0.05), name="draft")
    alone = []
    for config in configs(target, draft):
        made = Engine.load(config)
        alone.append(texts(list(made.generate_many(requests(3)))))
        del made
        gc.collect()
    together = [Engine.load(config) for config in configs(target, draft)]
    assert len({id(made.target) for made in together}) == 1
    assert together[2].draft is together[3].draft
    found = taking_turns([made.generate_many(requests(3)) for made in together])
    assert [texts(outcomes) for outcomes in found] == alone


def test_a_model_is_loaded_checked_prepacked_and_measured_once(save_model: SaveModel, calls: Counter[str]) -> None:
    target, draft = save_model(tiny_qwen2()), save_model(disturbed(tiny_qwen2(), 0.05), name="draft")
    together = [Engine.load(config) for config in configs(target, draft)]
    for made in together:
        made.get_provenance()
    assert calls == {"load": 2, "select_attention": 2, "prepack": 2, "is_batch_invariant": 1, "measure_verify_cost": 1}


def test_what_an_engine_learns_of_its_rounds_stays_its_own(save_model: SaveModel) -> None:
    target, draft = save_model(tiny_qwen2()), save_model(disturbed(tiny_qwen2(), 0.05), name="draft")
    _, one, _, other = (Engine.load(config) for config in configs(target, draft))
    assert one.costs.round_cost is not other.costs.round_cost
    assert one.costs.round_cost.verify is other.costs.round_cost.verify
    before = (other.costs.next_round.expected_s, other._loop.acceptance)
    list(one.generate_many(requests(1)))
    assert (other.costs.next_round.expected_s, other._loop.acceptance) == before
    assert one._loop.acceptance is not other._loop.acceptance


def test_the_last_engine_to_go_frees_the_weights(save_model: SaveModel, calls: Counter[str]) -> None:
    target, draft = save_model(tiny_qwen2()), save_model(disturbed(tiny_qwen2(), 0.05), name="draft")
    first, second, _, _ = made = [Engine.load(config) for config in configs(target, draft)]
    first.generate(requests(1)[0])
    weights = weakref.ref(first.target.model)
    del made, first
    gc.collect()
    assert weights() is not None
    assert second.generate(requests(1)[0]).samples
    del second, _
    gc.collect()
    assert weights() is None
    Engine.load(configs(target, draft)[0])
    assert calls["load"] == 3


@pytest.mark.parametrize("changes", [{"dtype": "bfloat16"}, {"attention": "reference"}])
def test_other_formats_and_attentions_do_not_share(save_model: SaveModel, changes: dict[str, str]) -> None:
    target = save_model(tiny_qwen2())
    plain = Engine.load(EngineConfig(target, dtype="float32", device="cpu"))
    other = Engine.load(EngineConfig(target, **{"dtype": "float32", "device": "cpu", **changes}))
    assert other.target is not plain.target


def test_files_that_changed_are_loaded_although_the_old_model_is_in_use(save_model: SaveModel) -> None:
    config = EngineConfig(save_model(tiny_qwen2()), drafter="none", dtype="float32", device="cpu")
    old = Engine.load(config)
    save_model(tiny_qwen2(seed=5))
    new = Engine.load(config)
    assert new.target is not old.target
    assert new.target.sha256 != old.target.sha256


def test_a_model_that_drafts_for_itself_is_in_memory_once(save_model: SaveModel) -> None:
    target = save_model(tiny_qwen2())
    made = Engine.load(EngineConfig(target, drafter=target, draft_length="fixed:4", dtype="float32", device="cpu"))
    assert made.draft is made.target
    done = made.generate(Request(PROMPTS[0], sampling=SamplingParams(0.0), max_new_tokens=20))
    assert all(n == d for r in done.rounds for n, d in zip(r.accepted, r.drafted, strict=True))
    assert len(made.count_memory()) == 2


def test_memory_counts_shared_weights_under_one_key(save_model: SaveModel) -> None:
    target, draft = save_model(tiny_qwen2()), save_model(disturbed(tiny_qwen2(), 0.05), name="draft")
    together = [Engine.load(config) for config in configs(target, draft)]
    parts = [made.count_memory() for made in together]
    for config, each in zip(configs(target, draft), parts, strict=True):
        assert set(each) == {*config.models, config}
        assert all(each[spec] > 200_000 for spec in config.models)
    assert len(set().union(*parts)) == 2 + len(together)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        MemoryError(),
    ],
)
@pytest.mark.parametrize("where", ["weights", "warm-up"])
def test_memory_that_runs_out_while_loading_is_told_from_other_faults(
    error: BaseException, where: str, save_model: SaveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = save_model(tiny_qwen2())
    fail = Mock(side_effect=error)
    if where == "weights":
        monkeypatch.setattr(loading.transformers.AutoModelForCausalLM, "from_pretrained", fail)
    else:
        monkeypatch.setattr(Engine, "warm_up", fail)
    with pytest.raises(NoMemoryError, match=r"tiny cannot be loaded, because memory has run out: end other"):
        Engine.load(EngineConfig(target, drafter="none", dtype="float32", device="cpu"))
    assert fail.called
