"""Calibrating an engine measures the machine and leaves no trace in what it decodes."""

from __future__ import annotations

import pytest
import torch

from decoding.checks import measurements
from decoding.request import Request, SamplingParams
from tests.thorough import thorough

PROMPT = "def add(a, b):\n    return a + b\n" * 3


def texts(engine):
    request = Request(PROMPT, n=3, seed=5, max_new_tokens=24, sampling=SamplingParams(0.8, 0.95))
    return [(s.token_ids, s.logprobs) for s in engine.generate(request).samples]


@pytest.mark.parametrize("drafter", [thorough("none"), thorough("sibling"), "./draft"])
def test_texts_and_random_state_are_the_same_after_a_calibration(engine, drafter):
    engine = engine(drafter=drafter, draft_length="fixed:4")
    before, state = texts(engine), torch.get_rng_state()
    engine.calibrate()
    assert torch.equal(torch.get_rng_state(), state)
    assert texts(engine) == before
    engine.calibrate()
    assert texts(engine) == before


def test_nothing_is_learnt_from_a_calibration(engine):
    engine = engine(drafter="sibling")
    texts(engine)
    timers = [engine.costs.next_round, *(prompt.token for prompt in engine.costs.prompts)]
    learnt = [(timer.expected_s, timer.known_s) for timer in timers]
    round_cost = engine.costs.round_cost(3, 12, 4)
    engine.calibrate()
    assert [(timer.expected_s, timer.known_s) for timer in timers] == learnt
    assert engine.costs.round_cost(3, 12, 4) == round_cost


def test_a_calibration_works_while_requests_are_half_decoded(engine):
    engine = engine()
    request = Request(PROMPT, n=1, max_new_tokens=8)
    alone = engine.generate(request).samples[0].token_ids
    decoding = engine.generate_many([request, request])
    _, first = next(decoding)
    engine.calibrate()
    ((_, second),) = decoding
    assert first.samples[0].token_ids == second.samples[0].token_ids == alone


def test_both_measures_are_rates_of_the_same_work(engine):
    found = engine().calibrate()
    assert found.verify_s > 0
    assert found.read_bytes_per_s > 0
    assert found.flops_per_s > 0


def test_a_crowded_machine_gets_fewer_runs(monkeypatch):
    now = [0.0]

    def verify(n_tokens: int) -> None:
        now[0] += 10.0

    monkeypatch.setattr(measurements.time, "perf_counter", lambda: now[0])
    for made in ("zeros", "ones"):
        monkeypatch.setattr(measurements.torch, made, lambda *size, **options: _Slow(now))
    found = measurements.calibrate(verify, torch.device("cpu"), torch.float32)
    assert now[0] == 60.0  # two runs each: one that allocates, one that counts
    assert found.verify_s == 10.0


class _Slow:
    def __init__(self, now: list[float]) -> None:
        self._now = now

    def sum(self) -> None:
        self._now[0] += 10.0

    def __matmul__(self, other) -> None:
        self._now[0] += 10.0
