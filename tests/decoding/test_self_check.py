"""What does not work on a device is switched off, named once, and decoding goes on: kernels made wrong on purpose."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from decoding.attention.backends import NAMES, get_backend
from decoding.attention.drawing_graphs import DraftGraphs
from decoding.attention.graphs import Graphs, GraphWork
from decoding.checks import self_check
from decoding.checks.graph_check import find_error
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import LoadedHead
from decoding.request import Request, SamplingParams
from kernels import accept, check, draw, kv_scatter, reference, verify_attention
from kernels.registry import BACKENDS
from tests.decoding.conftest import DRAFT
from tests.thorough import thorough

pytestmark = pytest.mark.slow

pytest.importorskip("triton")
SHAPE = check.AttentionShape(n_kv=2, group=2, dim=16, dtype=torch.float32)


@pytest.fixture
def quick(target: LoadedModel, draft: LoadedModel, head: LoadedHead, in_graphs: None) -> Callable[..., Engine]:
    """Make an engine with graphs."""

    def make(drafter: str = DRAFT, **settings: Any) -> Engine:
        config = EngineConfig("tiny", drafter, draft_length="fixed:2", max_batch=4, **settings)
        # The output layer has padding rows beyond the vocabulary, and no sample ends by itself.
        model = replace(target, vocab_size=256)
        return Engine(
            config, model, draft if drafter == DRAFT else None, head if drafter == "trained" else None, graphs=True
        )

    return make


def wrong(function: Callable[..., Any], spoil: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda *arguments, **options: spoil(function(*arguments, **options))


def off_by_one(*arguments: Any) -> None:
    *others, slot = arguments
    reference.write_kv(*others, slot + 1)


@pytest.mark.parametrize("attention", [name for name, backend in BACKENDS.items() if backend.needs_triton])
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.thorough)])
def test_kernels_that_work_pass(attention: str, dtype: torch.dtype, device: torch.device) -> None:
    assert check.find_failures(replace(SHAPE, dtype=dtype), attention, device) == {}


def test_each_wrong_kernel_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch, device: torch.device) -> None:
    shape, ragged = replace(SHAPE, n_kv=1), verify_attention.attend_ragged
    for spoil in (lambda out: out + 0.01, lambda out: out.fill_(torch.nan), lambda out: out.roll(1, 0)):
        with monkeypatch.context() as patch:
            patch.setattr(verify_attention, "attend_ragged", wrong(ragged, spoil))
            found = check.find_failures(shape, "ragged", device)
        assert list(found) == ["ragged"]
        assert "differs from its reference by" in found["ragged"]

    def broken(*_: Any) -> None:
        raise RuntimeError("out of resource: shared memory\nmore")

    with monkeypatch.context() as patch:
        patch.setattr(kv_scatter, "write_kv", off_by_one)
        patch.setattr(accept, "accept_maximal", wrong(accept.accept_maximal, lambda out: (out[0], out[1] + 1)))
        assert check.find_failures(shape, "ragged", device) == {
            "kv_scatter": "writes other slots than its reference",
            "accept": "decides differently from its reference",
        }
    monkeypatch.setattr(accept, "accept_coupled", broken)
    assert check.find_failures(shape, "ragged", device) == {"accept": "out of resource: shared memory"}


def test_a_wrong_attention_is_replaced_by_pytorchs(
    target: LoadedModel, draft: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = target.model.config._attn_implementation
    monkeypatch.setattr(verify_attention, "attend_ragged", wrong(verify_attention.attend_ragged, lambda out: out * 2))
    for loaded in (target, draft):
        loaded.model.set_attn_implementation(NAMES["ragged"])
    try:
        disabled = self_check.check_kernels(target)
        assert list(disabled) == ["ragged"]
        assert get_backend(target.model) == BACKENDS["sdpa"]
        assert get_backend(draft.model) == BACKENDS["ragged"], "another model is left as it is"
        engine = Engine(EngineConfig(target="tiny"), replace(target, disabled=disabled), None)
        assert engine.get_provenance()["disabled"] == "ragged"
        assert engine.get_provenance()["attention"] == "sdpa"
    finally:
        for loaded in (target, draft):
            loaded.model.set_attn_implementation(before)


@pytest.mark.thorough
@pytest.mark.parametrize("rule", ["coupled", "maximal"])
def test_without_the_kernels_texts_are_the_same(
    rule: str, target: LoadedModel, draft: LoadedModel, monkeypatch
) -> None:
    request = Request("x = y", n=2, sampling=SamplingParams(1.0, top_p=1.0), max_new_tokens=4)
    config = EngineConfig(target="tiny", drafter="./draft", draft_length="fixed:2", acceptance=rule, max_batch=2)
    before = target.model.config._attn_implementation
    texts = []
    try:
        for loaded in (target, draft):
            loaded.model.set_attn_implementation(NAMES["ragged"])
        for disabled in ({}, {"kv_scatter": "wrong", "accept": "wrong", "draw": "wrong"}):
            if disabled:
                for name in ("accept_coupled", "accept_maximal"):
                    monkeypatch.setattr(accept, name, None)
                monkeypatch.setattr(kv_scatter, "write_kv", None)
                monkeypatch.setattr(draw, "draw_tokens", None)
            engine = Engine(config, replace(target, disabled=disabled), draft, graphs=True)
            texts.append([s.token_ids for s in engine.generate(request).samples])
    finally:
        for loaded in (target, draft):
            loaded.model.set_attn_implementation(before)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("drafter", ["./draft", thorough("trained")])
@pytest.mark.parametrize("acceptance", ["coupled", pytest.param("maximal", marks=pytest.mark.thorough)])
def test_graphs_that_work_stay(drafter: str, acceptance: str, quick: Callable[..., Engine]) -> None:
    engine = quick(drafter, acceptance=acceptance)
    engine.warm_up()
    with engine._pool.acquire(1) as runners:
        verify, drawing = runners.graphs
        assert {(R, T) for R in (1, 2, 4) for T in (1, 2, 3)} <= set(verify.shapes)
        assert set(drawing.shapes) == {
            (R, size, is_whole)
            for R in (1, 2, 4)
            for size in ((1, 2) if drafter == "./draft" else drawing.widths)
            for is_whole in {False, acceptance == "maximal"}
        }
        before = [graphs.runner.cache.pool.n_used for graphs in runners.graphs]
    engine.check_graphs()
    with engine._pool.acquire(1) as runners:
        assert len(runners.graphs) == 2
        assert [graphs.runner.cache.pool.n_used for graphs in runners.graphs] == before
    assert engine.disabled == []
    assert engine.get_provenance()["disabled"] is None


@pytest.mark.parametrize("drafter", [thorough("none"), "./draft", thorough("trained")])
def test_every_shape_is_compared(drafter: str, quick: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other is made wrong, in what it computes for the last row before the padding."""
    engine = quick(drafter)
    engine.warm_up()
    prompts = self_check.encode_probes(engine.target)
    with engine._pool.acquire(1) as runners, torch.inference_mode():
        for graphs in runners.graphs:
            for shape in graphs.shapes:
                right, last = graphs._works[shape], shape[0] - 1 - (shape[0] > 2)
                graphs._works[shape] = GraphWork(right.inputs, partial(spoil, right.run, shape, last))
                with monkeypatch.context() as patch:
                    patch.setattr(Graphs, "shapes", property(lambda _, shape=shape: [shape]))
                    error = find_error(graphs, prompts)
                graphs._works[shape] = right
                assert error is not None
                assert "log-probabilities are off by" in error


def spoil(run: Callable[[], tuple[torch.Tensor, ...]], shape: Any, row: int) -> tuple[torch.Tensor, ...]:
    """Replay a graph, and move what it says of a row: logits, or drawn tokens."""
    first, *rest = run()
    first = first.clone()
    values = first.view(shape[0], -1, first.shape[-1]) if len(shape) == 2 else first
    values[row] = values[row].roll(1, -1) if len(shape) == 2 else (values[row] + 2) % 256
    return first, *rest


def test_a_shape_that_is_wrong_is_named_and_graphs_are_switched_off(quick: Callable[..., Engine]) -> None:
    engine = quick("none")
    engine.warm_up()
    with engine._pool.acquire(1) as runners:
        works = runners.graphs[0]._works
        R, T = shape = next(shape for shape in works if shape[1] > 1)  # which no text without drafts is decoded in
        works[shape] = GraphWork(works[shape].inputs, partial(spoil, works[shape].run, shape, 0))
    engine.check_graphs()
    assert engine.disabled == ["graphs"]
    assert engine._disabled["graphs"].startswith(f"{R} x {T}: log-probabilities are off by")


def stale(name: str) -> Callable[[Graphs, GraphWork], GraphWork]:
    """A capture that keeps the value that one input had when it was made."""

    def capture(graphs: Graphs, work: GraphWork) -> GraphWork:
        kept = work.inputs[name].clone()

        def run() -> tuple[torch.Tensor, ...]:
            work.inputs[name].copy_(kept)
            return work.run()

        return GraphWork(work.inputs, run)

    return capture


def raising(graphs: Graphs, work: GraphWork) -> GraphWork:
    def run() -> tuple[torch.Tensor, ...]:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    return GraphWork(work.inputs, run)


@pytest.mark.parametrize(
    ("capture", "reason"),
    [
        pytest.param(stale("length"), "log-probabilities are off by", marks=pytest.mark.thorough),
        (stale("tokens"), "log-probabilities are off by"),
        (raising, "CUDA error: an illegal memory access was encountered"),
    ],
    ids=["stale lengths", "stale tokens", "fails"],
)
def test_wrong_rounds_in_graphs_are_switched_off_and_decoding_goes_on(
    capture: Any, reason: str, quick: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(Graphs, "_capture", capture)
    engine = quick("none")
    engine.check_graphs()
    assert engine.disabled == ["graphs"]
    assert engine._disabled["graphs"].startswith(reason)
    request = Request("x =", n=2, sampling=SamplingParams(0.0), max_new_tokens=6)
    monkeypatch.undo()
    texts = [s.token_ids for s in engine.generate(request).samples]
    assert texts == [s.token_ids for s in quick("none").generate(request).samples]
    with caplog.at_level(logging.WARNING, logger="decoding"):
        self_check.warn_about_disabled(engine._disabled, "a card")
        self_check.warn_about_disabled({}, "a card")
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith(f"switched off on a card, where it does not work as it should: graphs ({reason}")


def test_wrong_draft_graphs_are_switched_off_alone(
    quick: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = DraftGraphs._step

    def another(self: DraftGraphs, *arguments: Any) -> Any:
        drawn, *rest = step(self, *arguments)  # type: ignore[misc]
        return ((drawn + 1) % 256, *rest)

    monkeypatch.setattr(DraftGraphs, "_step", another)
    engine = quick()
    engine.check_graphs()
    assert engine.disabled == ["draft graphs"]
    assert engine._pool.has_graphs
    assert engine.generate(Request("x =", sampling=SamplingParams(0.0), max_new_tokens=6)).samples[0].n_tokens == 6


def test_a_failed_capture_is_in_the_provenance(quick: Callable[..., Engine], monkeypatch: Any) -> None:
    def fail(self: Graphs, work: GraphWork) -> GraphWork:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(Graphs, "_capture", fail)
    engine = quick("none")
    engine.generate(Request("x =", sampling=SamplingParams(0.0), max_new_tokens=3))
    assert engine.get_provenance()["disabled"] == "graphs"
