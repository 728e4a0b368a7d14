"""Rounds over static, bucketed buffers decode what rounds without graphs do. On a CPU a replay runs the work again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from decoding import costs
from decoding.acceptance.registry import make_rule
from decoding.acceptance.sampling import to_distribution, to_distribution_nosync
from decoding.attention import verify_graphs
from decoding.attention.graphs import Graphs, round_up_rows, round_up_tokens
from decoding.attention.runner import ModelRunner
from decoding.attention.target_runner import TargetRunner
from decoding.attention.verify_graphs import VerifyGraphs
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models.loaded import LoadedModel
from decoding.request import Request, SamplingParams
from tests.thorough import thorough

pytest.importorskip("triton")
PROMPT = "def add(a, b):\n    return a + b\n\ndef add("


pytestmark = pytest.mark.usefixtures("in_graphs")


def texts(target: LoadedModel, draft: LoadedModel, request: Request, *, graphs: bool, **settings: Any) -> list[Any]:
    config = EngineConfig(**{"target": "tiny", "max_batch": 3, **settings})
    engine = Engine(config, target, draft if "model" in config.drafter else None, graphs=graphs)
    done = [engine.generate(replace(request, seed=seed)) for seed in (0, 1)]  # the second finds the first's graphs
    return [[(s.token_ids, s.finish_reason) for s in one.samples] for one in done]


@pytest.mark.parametrize("temperature", [pytest.param(0.0, marks=pytest.mark.thorough), 0.8])
@pytest.mark.parametrize(
    ("drafter", "length"),
    [
        pytest.param("none", "fixed:0", marks=pytest.mark.thorough),
        ("sibling", "bass"),
        ("./model", "fixed:3"),
        pytest.param("ngram+./model", "fixed:2", marks=pytest.mark.thorough),
    ],
)
def test_coupled_samples_are_the_same_with_graphs(drafter, length, temperature, target, draft) -> None:
    request = Request(PROMPT, n=5, sampling=SamplingParams(temperature, top_p=0.95), max_new_tokens=12)
    settings = {"drafter": drafter, "draft_length": length}
    assert texts(target, draft, request, graphs=True, **settings) == texts(
        target, draft, request, graphs=False, **settings
    )


@pytest.mark.parametrize("drafter", [thorough("sibling"), "./model"])
def test_requests_with_different_sampling_are_decoded_in_one_graph(drafter, target, draft) -> None:
    samplings = [SamplingParams(0.0), SamplingParams(0.8), SamplingParams(1.0, top_p=1.0), SamplingParams(10.0, 0.99)]
    wanted = [Request(PROMPT, sampling=sampling, max_new_tokens=8) for sampling in samplings]
    config = EngineConfig("tiny", drafter, "fixed:2", max_batch=4)
    model = draft if "model" in drafter else None
    together = dict(Engine(config, target, model, graphs=True).generate_many(wanted))
    plain = Engine(config, target, model, graphs=False)
    assert [together[i].samples[0].token_ids for i in range(4)] == [
        plain.generate(each).samples[0].token_ids for each in wanted
    ]


@pytest.mark.parametrize("drafter", [thorough("none"), thorough("sibling"), "./model"])
def test_requests_for_top_tokens_are_decoded_between_others_in_graphs(drafter, target, draft, monkeypatch) -> None:
    plain = Request(PROMPT, n=2, sampling=SamplingParams(0.8, 1.0), max_new_tokens=8)
    asking = replace(plain, top_logprobs=2, prompt_logprobs=1)
    config = EngineConfig("tiny", drafter, "fixed:2", max_batch=4)
    model = draft if "model" in drafter else None
    expected = Engine(config, target, model, graphs=False).generate(asking).samples
    engine = Engine(config, target, model, graphs=True)
    engine.warm_up()
    shapes = replays(monkeypatch)
    monkeypatch.setattr(TargetRunner, "_verify_by_forward", None)
    done = dict(engine.generate_many([plain, asking, plain]))
    n_rounds = max(len(done[i].rounds) for i in range(3))
    assert sum(len(shape) == 2 for shape in shapes) >= n_rounds, "every round replays a graph of the target"
    for i in range(3):
        assert [sample.token_ids for sample in done[i].samples] == [sample.token_ids for sample in expected]
    assert [len(sample.top_logprobs) for i in (0, 2) for sample in done[i].samples] == [0] * 4
    for sample, alone in zip(done[1].samples, expected, strict=True):
        assert len(sample.top_logprobs) == 8
        for tops, others in zip(sample.top_logprobs, alone.top_logprobs, strict=True):
            assert [text for text, _ in tops] == [text for text, _ in others]
            assert [logp for _, logp in tops] == pytest.approx([logp for _, logp in others], abs=1e-5)
    scored = done[1].prompt_logprobs
    assert scored is not None
    assert len(scored) == len(PROMPT)


def test_a_draft_is_one_graph_and_a_long_one_a_few(target, draft, monkeypatch) -> None:
    shapes = replays(monkeypatch)
    for length, expected in ((3, {3}), (19, {8, 3})):
        shapes.clear()
        request = Request(PROMPT, n=2, sampling=SamplingParams(0.8), max_new_tokens=40)
        settings = {"drafter": "./model", "draft_length": f"fixed:{length}"}
        assert texts(target, draft, request, graphs=True, **settings) == texts(
            target, draft, request, graphs=False, **settings
        )
        drawn = [shape[1] for shape in shapes if len(shape) == 3]
        assert expected <= set(drawn)
        n_drafts = sum(len(shape) == 2 and shape[1] > 1 for shape in shapes)
        assert len(drawn) <= n_drafts * -(-length // 8)


@pytest.mark.parametrize("drafter", [thorough("ngram"), "./model"])
def test_maximal_samples_are_the_same_with_graphs(drafter, target, draft) -> None:
    # Without a filter the draft's distribution is whole in either path, so that both make the same draws.
    request = Request(PROMPT, n=2, sampling=SamplingParams(1.0, top_p=1.0), max_new_tokens=10)
    settings = {"drafter": drafter, "draft_length": "fixed:3", "acceptance": "maximal"}
    assert texts(target, draft, request, graphs=True, **settings) == texts(
        target, draft, request, graphs=False, **settings
    )


def test_a_failed_capture_is_logged_once_and_decoding_goes_on(target, draft, monkeypatch, caplog) -> None:
    def fail(self: Graphs, work: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    request = Request(PROMPT, n=2, sampling=SamplingParams(0.0), max_new_tokens=6)
    settings = {"drafter": "./model", "draft_length": "fixed:2"}
    plain = texts(target, draft, request, graphs=False, **settings)
    monkeypatch.setattr(Graphs, "_capture", fail)
    with caplog.at_level(logging.WARNING, logger="decoding"):
        assert texts(target, draft, request, graphs=True, **settings) == plain
    assert [record.getMessage() for record in caplog.records] == [
        "no CUDA graph of Qwen2ForCausalLM, shape (1, 1) (operation not permitted when stream is capturing):"
        " its rounds run without, more slowly"
    ]


@pytest.mark.parametrize("fails", [(1, 3), (4, 3)], ids=["a later shape", "the first shape"])
def test_a_shape_whose_capture_fails_leaves_the_other_graphs_alive(fails, target, draft, monkeypatch, caplog) -> None:
    capture, n_captured = Graphs._capture, []

    def fail_once(self: Graphs, work: Any) -> Any:
        if isinstance(self, VerifyGraphs) and work.inputs["tokens"].shape == fails:
            raise RuntimeError("no capture")
        n_captured.append(work)
        return capture(self, work)

    monkeypatch.setattr(Graphs, "_capture", fail_once)
    engine = Engine(EngineConfig("tiny", "sibling", "fixed:2", max_batch=4), target, None, graphs=True)
    with caplog.at_level(logging.WARNING, logger="decoding"):
        engine.warm_up()
    (record,) = caplog.records
    assert f"shape {fails}" in record.getMessage()
    captured = len(n_captured)
    for n in (1, 2, 4):
        request = Request(PROMPT, n=n, sampling=SamplingParams(0.8), max_new_tokens=8)
        plain = Engine(engine.config, target, None, graphs=False)
        assert [s.token_ids for s in engine.generate(request).samples] == [
            s.token_ids for s in plain.generate(request).samples
        ]
    assert (len(n_captured), engine.disabled) == (captured, ["graphs"])
    graphs = engine._pool._kept.target.graphs
    assert fails not in graphs.shapes
    assert {(1, 1), (2, 3), (4, 1)} <= set(graphs.shapes)


class Device:
    """Stands in for torch's capture as it is in torch 2.11: one that is invalid ends nothing that it has begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stream, self.pools, self.is_in_capture, self.is_invalid = "main", [], False, False
        stream = SimpleNamespace(wait_stream=lambda _: None)
        for name, value in {
            **{"empty_cache": lambda: None, "memory_reserved": lambda: 0, "CUDAGraph": lambda: self},
            **{"Stream": lambda: stream, "stream": lambda _: nullcontext(), "graph": self.capture},
            "current_stream": lambda: SimpleNamespace(
                name=self.stream, device=torch.device("cpu"), device_index=0, wait_stream=lambda _: None
            ),
            "set_stream": lambda stream: setattr(self, "stream", stream.name),
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
        monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", lambda _, pool: self.pools.remove(pool), raising=False)

    @contextmanager
    def capture(self, graph: Device, pool: Any = None, capture_error_mode: str = "global") -> Iterator[None]:
        assert (graph, capture_error_mode) == (self, "thread_local")
        self.stream, before, self.is_in_capture = "capture", self.stream, True
        self.pools.append(pool)
        try:
            yield
        finally:
            if self.is_invalid:
                self.is_invalid = False
                raise RuntimeError("operation failed due to a previous error during capture")
            self.stream, self.is_in_capture = before, False
            self.pools.remove(pool)

    def replay(self) -> None:
        assert not self.is_in_capture, "Offset increment outside graph capture encountered unexpectedly"


@pytest.mark.parametrize("is_invalid", [True, False], ids=["forbidden", "raises"])
def test_a_failed_capture_leaves_the_device_as_it_was(is_invalid, target, monkeypatch, caplog) -> None:
    graphs = VerifyGraphs(ModelRunner(target.model, 257, 2), make_rule("coupled"))
    device, forward = Device(monkeypatch), graphs._forward
    monkeypatch.setattr(graphs, "_pool", "pool")
    with torch.inference_mode():
        graphs.capture((2, 2))
        with monkeypatch.context() as patched:

            def fail(*arguments: Any) -> Any:
                device.is_invalid = is_invalid
                if device.is_in_capture:
                    raise RuntimeError("operation not permitted when stream is capturing")
                return graph_forward(*arguments)

            graph_forward = verify_graphs.forward
            patched.setattr(verify_graphs, "forward", fail)
            with caplog.at_level(logging.WARNING, logger="decoding"):
                graphs.capture((2, 1))
        assert "shape (2, 1)" in caplog.text
        assert (device.stream, device.pools, device.is_in_capture) == ("main", [], False)
        assert forward(2, 2, {}) is not None, "the graph captured before is replayed"
        graphs.capture((1, 1))
        assert (graphs.shapes, graphs.failed) == ([(2, 2), (1, 1)], {(2, 1)})


def test_loading_says_how_many_shapes_are_captured(target, draft) -> None:
    config = EngineConfig("tiny", "./model", "fixed:3", max_batch=4)
    engine = Engine(config, target, draft, graphs=True)
    lines: list[str] = []
    engine.warm_up(lines.append)
    n_shapes = 3 * 4 + 3 * 3  # the target's of 1 to 4 tokens, and 1 to 3 steps of the draft model
    name = "Qwen2ForCausalLM: capturing CUDA graphs, shape"
    assert lines == [f"{name} {n} of {n_shapes}" for n in (1, 11, 21)]


@pytest.mark.parametrize("drafter", [thorough("none"), "./model", thorough("trained")])
def test_after_a_failed_capture_more_samples_are_served_than_graphs_had_rows(
    drafter, target, draft, head, monkeypatch, caplog
) -> None:
    def fail(self: Graphs, work: Any) -> Any:
        raise RuntimeError("no capture")

    monkeypatch.setattr(Graphs, "_capture", fail)
    config = EngineConfig("tiny", drafter, "fixed:2", max_batch=2)
    parts = draft if drafter == "./model" else None, head if drafter == "trained" else None
    engine = Engine(config, target, *parts, graphs=True)
    engine.warm_up()
    requests = [Request(PROMPT, n=5, seed=seed, sampling=SamplingParams(0.8), max_new_tokens=9) for seed in (0, 1)]
    served = dict(engine.serve(requests))
    assert engine.disabled == ["graphs"]
    plain = Engine(config, target, *parts, graphs=False)
    for i, request in enumerate(requests):
        alone = plain.generate(request).samples
        assert [s.token_ids for s in served[i].samples] == [s.token_ids for s in alone]


def test_the_cost_of_a_verify_is_measured_on_graphs_where_rounds_run_as_graphs(target, monkeypatch) -> None:
    shapes = replays(monkeypatch)
    engine = Engine(EngineConfig(target="tiny", max_batch=4), target, None, graphs=True)
    monkeypatch.setattr(ModelRunner, "forward", None)
    assert engine.costs.round_cost.verify.sizes == costs.SIZES
    measured = {R * T for R, T in shapes}
    assert all(any(size <= n <= 2 * size for n in measured) for size in engine.costs.round_cost.verify.sizes)


def test_buckets_hold_what_they_are_asked_for_and_are_few() -> None:
    assert all(round_up_rows(n) >= n for n in range(1, 100))
    assert all(round_up_tokens(n) >= n for n in range(1, 34))
    assert sorted({round_up_rows(n) for n in range(1, 33)}) == [1, 2, 4, 8, 16, 24, 32]


@pytest.mark.parametrize(
    "sampling",
    [SamplingParams(0.0), SamplingParams(0.7, 0.9), SamplingParams(1.0, 1.0, 5), SamplingParams(1.0, 1.0, 0, 0.1)],
)
def test_the_search_without_a_host_read_finds_the_same_distribution(sampling: SamplingParams) -> None:
    logits = torch.randn(6, 20_000, generator=torch.Generator().manual_seed(0)) * 4
    p, found = to_distribution_nosync(logits, sampling)
    whole = to_distribution(logits, sampling)
    tokens = torch.arange(20_000).expand(6, -1)
    assert found.any()
    assert torch.allclose(
        p.select_rows(found).get_probabilities(tokens[found]),
        whole.select_rows(found).get_probabilities(tokens[found]),
        atol=1e-6,
    )


def test_all_graphs_of_the_target_leave_their_logits_in_one_buffer(target) -> None:
    config = EngineConfig(target="tiny", drafter="sibling", draft_length="fixed:4", max_batch=5)
    engine = Engine(config, target, None, graphs=True)
    engine.warm_up()
    with engine._pool.acquire(5) as runners, torch.inference_mode():
        (graphs,) = runners.graphs
        logits = [work.run()[0] for work in graphs._works.values()]
    assert len(logits) > 10
    (place,) = {each.untyped_storage().data_ptr() for each in logits}
    assert {each.data_ptr() for each in logits} == {place}
    assert logits[0].untyped_storage().nbytes() == max(each.nbytes for each in logits)


@pytest.mark.parametrize("drafter", [thorough("sibling"), "./model"])
def test_a_request_decoded_inside_a_batch_under_way_disturbs_neither(drafter, target, draft) -> None:
    wanted = [
        Request(PROMPT, n=2, seed=seed, sampling=SamplingParams(0.8), max_new_tokens=6 + seed) for seed in range(4)
    ]
    config = EngineConfig(target="tiny", max_batch=4, drafter=drafter, draft_length="fixed:2")
    engines = [
        Engine(config, target, draft if drafter == "./model" else None, graphs=graphs) for graphs in (True, False)
    ]
    engine = engines[0]
    alone = [[s.token_ids for s in engines[1].generate(each).samples] for each in wanted]
    inside, outcomes = [], {}
    for position, outcome in engine.generate_many(wanted):
        outcomes[position] = [s.token_ids for s in outcome.samples]
        inside.append([s.token_ids for s in engine.generate(wanted[3]).samples])
    assert [outcomes[i] for i in range(4)] == alone
    assert inside == [alone[3]] * 4


def replays(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The shapes that are replayed from now on."""
    shapes: list[Any] = []
    replay = Graphs.replay

    def spy(self: Graphs, key: Any, make: Any, values: Any) -> Any:
        shapes.append(key)
        return replay(self, key, make, values)

    monkeypatch.setattr(Graphs, "replay", spy)
    return shapes


def test_graphs_are_free_again_once_a_batch_is_given_up(target, monkeypatch) -> None:
    engine = Engine(EngineConfig(target="tiny", draft_length="fixed:2", max_batch=4), target, None, graphs=True)
    wanted = Request(PROMPT, n=1, sampling=SamplingParams(0.0), max_new_tokens=4)
    batch = engine.generate_many([wanted] * 9)
    next(batch)
    shapes = replays(monkeypatch)
    engine.generate(wanted)
    assert not shapes, "the graphs' cache is in use by the batch"
    batch.close()
    engine.generate(wanted)
    assert shapes


@pytest.mark.parametrize("acceptance", ["coupled", pytest.param("maximal", marks=pytest.mark.thorough)])
def test_no_temperature_filter_or_length_is_captured_in_a_requests_time(acceptance, target, draft, monkeypatch) -> None:
    captured = []
    monkeypatch.setattr(Graphs, "_capture", lambda self, work: captured.append(work) or work)
    config = EngineConfig("tiny", "./model", "fixed:2", acceptance, max_batch=2)
    engine = Engine(config, target, draft, graphs=True)
    engine.warm_up()
    n_captured = len(captured)
    # The target: 1 or 2 rows of 1 to 3 tokens, and what verifies were measured with. The draft model: 1 or 2 rows, one
    # or two steps, and whole distributions apart where the rule needs them.
    assert n_captured >= 2 * 3 + 2 * 2 * (1 if acceptance == "coupled" else 2)
    samplings = [SamplingParams(0.1 * t, top_p=p) for t in (0, 1, 5) for p in (0.9, 1.0)]
    for sampling in [*samplings, SamplingParams(0.7, 0.95, 3), SamplingParams(0.7, 1.0, 100, 0.05)]:
        for n in (1, 2):
            engine.generate(Request(PROMPT, n=n, sampling=sampling, max_new_tokens=3))
    assert len(captured) == n_captured


@pytest.mark.parametrize("drafter", [thorough("none"), "./model", thorough("trained")])
def test_prompts_of_any_length_are_decoded_in_the_graphs_captured_at_load(
    drafter, target, draft, head, monkeypatch
) -> None:
    captured = []
    monkeypatch.setattr(Graphs, "_capture", lambda self, work: captured.append(work) or work)
    config = EngineConfig("tiny", drafter, "fixed:2", max_batch=2)
    parts = draft if drafter == "./model" else None, head if drafter == "trained" else None
    engine = Engine(config, target, *parts, graphs=True)
    engine.warm_up()
    n_captured = len(captured)
    long = 400 // len(PROMPT)
    requests = [Request(PROMPT * n, n=2, sampling=SamplingParams(0.8), max_new_tokens=9) for n in (1, long, 1)]
    found = [[s.token_ids for s in engine.generate(request).samples] for request in requests]
    assert len(captured) == n_captured
    plain = Engine(config, target, *parts, graphs=False)
    assert found == [[s.token_ids for s in plain.generate(request).samples] for request in requests]


@pytest.mark.thorough
def test_a_calibration_leaves_the_graphs_and_their_texts_as_they_are(target, draft) -> None:
    engine = Engine(EngineConfig("tiny", "sibling", "fixed:2", max_batch=3), target, None, graphs=True)
    request = Request(PROMPT, n=3, sampling=SamplingParams(0.8), max_new_tokens=12)
    before = [s.token_ids for s in engine.generate(request).samples]
    engine.calibrate()
    assert engine.disabled == []
    assert [s.token_ids for s in engine.generate(request).samples] == before
