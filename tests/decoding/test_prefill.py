"""A prompt is read in chunks by one model after the other, and what is ahead counts them all."""

from __future__ import annotations

import pytest
import torch

from decoding.attention.prefill import Prefill, PrefillEstimate, PrefillPart
from decoding.costs import CostEstimator

CPU = torch.device("cpu")


def known(seconds: float) -> CostEstimator:
    timer = CostEstimator()
    timer.observe(seconds)
    return timer


def test_models_read_in_turn_what_the_ones_before_them_have_left() -> None:
    done: list[tuple[str, int, int]] = []
    target = PrefillPart(lambda row, a, b: done.append(("target", a, b)), 2, 9, 4, CostEstimator(), CPU)
    head = PrefillPart(
        lambda row, a, b: done.append(("head", a, b)), 0, 20, 4, CostEstimator(), CPU, lambda row: done[-1][2] - 3
    )
    Prefill(target).then(Prefill(head)).finish(0)
    assert done[:4] == [("target", 2, 4), ("target", 4, 8), ("target", 8, 9), ("head", 0, 4)]
    assert len(done) == 4, "what was not readable then is left"


def test_what_is_ahead_counts_every_model() -> None:
    target, head = (
        PrefillPart(lambda *_: None, 0, 100, 60, known(2.0), CPU),
        PrefillPart(lambda *_: None, 0, 90, 60, known(0.5), CPU, lambda row: 0),
    )
    ahead = Prefill(target).then(Prefill(head)).estimate(0)
    assert ahead.next_s == pytest.approx(60 * 2.0 * 1.15)
    assert ahead.least_rest_s == pytest.approx(100 * 2.0 + 90 * 0.5)
    assert ahead.rest_s == pytest.approx(1.15 * ahead.least_rest_s)


def test_a_prompt_without_work_is_read() -> None:
    prefill = Prefill(PrefillPart(lambda *_: pytest.fail("nothing to read"), 3, 3, 4, CostEstimator(), CPU)).then(
        Prefill()
    )
    assert prefill.is_done(0)
    assert prefill.estimate(0) == PrefillEstimate(0.0, 0.0, 0.0)
    prefill.step(0)
