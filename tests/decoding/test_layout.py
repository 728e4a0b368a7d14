"""Attention over rows of very different lengths: each token sees its own row, no matter which others are in the
call."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.attention.ragged import MaskStore, attend_by_pytorch
from decoding.memory.layout import Layout
from decoding.memory.pages import PagePool
from tests.thorough import scale_examples

CPU = torch.device("cpu")
SCALE = 0.3


PAGE = 32


def layout_of(lens: list[int], counts: list[int]) -> Layout:
    """Rows whose pages lie scattered, the first of all left out."""
    n = -(-max(length + count for length, count in zip(lens, counts, strict=True)) // PAGE)
    page_table = (torch.arange(len(counts) * n).flip(0) + 1).view(len(counts), n).int()
    return Layout.build(lens, counts, CPU, torch.arange(sum(counts)), page_table, PAGE)


def in_pages(layout: Layout, rows: torch.Tensor) -> torch.Tensor:
    """Rows [R, H, S, D] as a buffer of pages, in which everything past a row's end is not a number."""
    page_table = layout.rows.page_table
    assert page_table is not None
    pool = PagePool(page_table.numel(), PAGE)
    buffer = pool.buffer("keys", rows)
    buffer[1:] = torch.nan
    for r, (length, count) in enumerate(zip(layout.lens, layout.counts, strict=True)):
        for t in range(length + count):
            buffer[page_table[r, t // PAGE], :, t % PAGE] = rows[r, :, t]
    return buffer


def attended(
    lens: list[int], counts: list[int], queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    layout = layout_of(lens, counts)
    keys, values = in_pages(layout, keys), in_pages(layout, values)
    return attend_by_pytorch(queries[0].transpose(0, 1), keys, values, layout, MaskStore(), SCALE)


@settings(deadline=None, max_examples=scale_examples(60))
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
    layout = layout_of([5, 6, 0, 7], [2, 1, 40, 3])
    assert [part.counts for part in layout.parts] == [(2, 1), (40,), (3,)]
    assert torch.equal(torch.cat([part.slot for part in layout.parts]), layout.slot)
    assert [part.padded_index.shape[1] for part in layout.parts] == [2, 40, 3]


@pytest.mark.parametrize("counts", [[1], [40], [3, 1, 4], [40, 40]])
def test_rows_of_like_lengths_stay_together(counts: list[int]) -> None:
    layout = layout_of([0] * len(counts), counts)
    assert layout.parts == [layout]


def test_rows_that_sit_out_have_no_part() -> None:
    assert [part.counts for part in layout_of([5, 6, 0], [0, 0, 40]).parts] == [(40,)]


def test_rows_lie_in_one_page_each_for_a_model_that_computes_with_them_before_its_attention() -> None:
    layout = layout_of([70, 3], [2, 4])
    rows = torch.randn(2, 2, 128, 8)
    buffer = in_pages(layout, rows)
    gathered = layout.gather_pages(buffer)
    assert torch.equal(layout.dense.gather_pages(gathered)[:, :, :7], gathered[:, :, :7])
    for r, n in enumerate((72, 7)):
        assert torch.equal(gathered[r, :, :n], rows[r, :, :n])
    assert not gathered[1, :, 7:].any()
