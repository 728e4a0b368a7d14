"""Attention over rows of very different lengths: each token sees its own row, no matter which others are in the
call."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.attention.ragged import MaskStore, ragged_cache_attention
from decoding.memory.layout import Layout

CPU = torch.device("cpu")
SCALE = 0.3


def side_by_side(n_rows: int, first: int = 0) -> list[tuple[int, int]]:
    """The places of rows in one shelf."""
    return [(0, first + r) for r in range(n_rows)]


def attended(
    lens: list[int], counts: list[int], queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    layout = Layout.build(lens, counts, CPU, side_by_side(len(counts)))
    result, _ = ragged_cache_attention(
        torch.nn.Identity(), queries, keys, values, None, SCALE, None, layout, MaskStore()
    )
    return result[0]


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(st.tuples(st.integers(0, 70), st.integers(0, 40)), min_size=1, max_size=6))
def test_each_token_attends_to_its_own_row_up_to_itself(rows: list[tuple[int, int]]) -> None:
    lens, counts = [length for length, _ in rows], [count for _, count in rows]
    if not any(counts):
        return
    made = torch.Generator().manual_seed(len(rows))
    queries = torch.randn(1, 4, sum(counts), 8, generator=made)
    keys, values = (torch.randn(len(rows), 2, 128, 8, generator=made) for _ in range(2))
    found = attended(lens, counts, queries, keys, values)
    at = 0
    for r, (length, count) in enumerate(rows):
        for t in range(count):
            seen = slice(0, length + t + 1)
            for head in range(4):
                score = queries[0, head, at] @ keys[r, head // 2, seen].T * SCALE
                torch.testing.assert_close(found[at, head], score.softmax(-1) @ values[r, head // 2, seen])
            at += 1


def test_a_row_that_brings_a_prompt_does_not_widen_the_others() -> None:
    layout = Layout.build([5, 6, 0, 7], [2, 1, 40, 3], CPU, side_by_side(4, first=2))
    assert [(part.first_slot, part.counts) for part in layout.parts] == [(2, (2, 1)), (4, (40,)), (5, (3,))]
    assert [part.gather.shape[1] for part in layout.parts] == [2, 40, 3]


@pytest.mark.parametrize("counts", [[1], [40], [3, 1, 4], [40, 40]])
def test_rows_of_like_lengths_stay_together(counts: list[int]) -> None:
    layout = Layout.build([0] * len(counts), counts, CPU, side_by_side(len(counts)))
    assert layout.parts == [layout]


def test_rows_that_sit_out_have_no_part() -> None:
    layout = Layout.build([5, 6, 0], [0, 0, 40], CPU, side_by_side(3))
    assert [(part.first_slot, part.counts) for part in layout.parts] == [(2, (40,))]
