"""All variants compute attention over ragged rows in pages, and nothing outside a row's length reaches them.

The cases cover all pairs of (head dimension, k + 1), and of most other parameters; every case has rows of 0, 1,
block - 1, block and block + 1 tokens in the cache and a row that sits out. The bound is FlashAttention's: at most
twice the error that PyTorch makes in the same dtype.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import reference, verify_attention
from kernels.registry import BACKENDS
from kernels.rows import RaggedRows
from kernels.verify_attention import block_n
from tests.thorough import quick_first, thorough

HEAD_DIMS = (64, 80, 96, 128, 256)
COUNTS = (1, 2, 9, 16, 33)
GROUPS = (1, 4, 7)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
KERNELS = [name for name, backend in BACKENDS.items() if backend.needs_triton]
CASES = [
    pytest.param(D, T, GROUPS[(i + j) % 3], DTYPES[(i + 2 * j + j // 3) % 3], id=f"D{D}-T{T}-case{5 * i + j}")
    for i, D in enumerate(HEAD_DIMS)
    for j, T in enumerate(COUNTS)
]


def lengths_around(block: int) -> list[int]:
    return [0, 1, block - 1, block, block + 1, 5]


class Problem:
    """Queries, shuffled pages with NaN past each row's length and where there is no row, and the exact result."""

    def __init__(
        self,
        D: int,
        T: int,
        group: int,
        dtype: torch.dtype,
        device: torch.device,
        n_kv_heads: int = 1,
        window: int | None = None,
        features: dict[str, Any] | None = None,
        page_size: int = 16,
    ) -> None:
        lengths = lengths_around(block_n(D, dtype.itemsize))
        counts = [T, max(T - 1, 1), 1, T, max(T // 2, 1), 0]
        ends = [length + count for length, count in zip(lengths, counts, strict=True)]
        blocks = reference.draw_blocks(ends, page_size).to(device)
        self.rows = RaggedRows.of(lengths, counts, device, blocks, page_size)
        self.scale, self.window = D**-0.5, window
        # Views: neither queries nor pages are contiguous in the engine.
        self.q = torch.randn(n_kv_heads * group, sum(counts), D, device=device, dtype=dtype).transpose(0, 1)
        states = torch.randn(2, len(lengths), n_kv_heads, max(ends), D, device=device, dtype=dtype)
        self.features = features or {}
        for r, end in enumerate(ends):
            states[:, r, :, end:] = torch.nan
        self.k, self.v = (reference.build_pool(each, blocks, page_size) for each in states)

    def reference(self, dtype: torch.dtype) -> torch.Tensor:
        q, k, v = (t.to(dtype) for t in (self.q, self.k, self.v))
        return reference.verify_attention(q, k, v, self.rows, self.scale, self.window, **self.features)

    def check(self, out: torch.Tensor) -> None:
        exact = self.reference(torch.float32)
        theirs = (self.reference(out.dtype).float() - exact).abs().max()
        error = (out.float() - exact).abs()
        worst = torch.unravel_index(error.nan_to_num(nan=torch.inf).argmax(), error.shape)
        where = f"query {int(worst[0])}, head {int(worst[1])}, dimension {int(worst[2])}"
        assert error[worst] <= 2 * theirs + 1e-5, f"error {error[worst]} at {where}; PyTorch's is {theirs}"


@pytest.mark.parametrize(("D", "T", "group", "dtype"), CASES)
def test_ragged_is_as_exact_as_pytorch(D: int, T: int, group: int, dtype: torch.dtype, device: torch.device) -> None:
    p = Problem(D, T, group, dtype, device)
    p.check(verify_attention.ragged(p.q, p.k, p.v, p.rows, p.scale))


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "ragged"])
@pytest.mark.parametrize(("D", "T", "group", "dtype"), quick_first(CASES[::3], CASES[::9]))
def test_the_other_kernels_are_as_exact(name, D, T, group, dtype, device) -> None:
    p = Problem(D, T, group, dtype, device)
    p.check(BACKENDS[name].load()(p.q, p.k, p.v, p.rows, p.scale))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("page_size", [32, thorough(64), 128])
def test_pages_may_have_several_sizes(name: str, page_size: int, device: torch.device) -> None:
    p = Problem(64, 5, 2, torch.float32, device, n_kv_heads=2, window=40, page_size=page_size)
    p.check(BACKENDS[name].load()(p.q, p.k, p.v, p.rows, p.scale, p.window))


@settings(deadline=None, max_examples=5)
@given(
    table=st.lists(st.lists(st.integers(0, 5), min_size=5, max_size=5), min_size=1, max_size=3),
    lengths=st.lists(st.tuples(st.integers(0, 75), st.integers(1, 5)), min_size=3, max_size=3),
    page_size=st.sampled_from([16, 32, 64, 128]),
    window=st.sampled_from([None, 40]),
    softcap=st.sampled_from([None, 0.7]),
    has_sinks=st.booleans(),
    name=st.sampled_from(KERNELS),
)
def test_rows_may_share_pages_in_any_order(
    table: list[list[int]],
    lengths: list[tuple[int, int]],
    page_size: int,
    window: int | None,
    softcap: float | None,
    has_sinks: bool,
    name: str,
) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    make = torch.Generator().manual_seed(page_size)
    lens, counts = zip(*lengths[: len(table)], strict=True)
    q = torch.randn(sum(counts), 4, 64, generator=make).to(device)
    k, v = torch.randn(2, 6, page_size, 2, 64, generator=make).to(device).transpose(2, 3)
    blocks = torch.tensor(table, dtype=torch.int32, device=device)
    rows = RaggedRows.of(lens, counts, device, blocks, page_size)
    features = {"softcap": softcap, "sinks": torch.linspace(-2, 2, 4, device=device) if has_sinks else None}
    actual = BACKENDS[name].load()(q, k, v, rows, 0.125, window, **features)
    expected = reference.verify_attention(q, k, v, rows, 0.125, window, **features)
    torch.testing.assert_close(actual, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", [name for name in KERNELS if BACKENDS[name].supports_graphs])
def test_padding_tokens_past_the_table_change_nothing(name: str, device: torch.device) -> None:
    """A captured round has the same number of tokens in each row, also in one at the end of its pages."""
    q, (k, v) = torch.randn(4, 2, 64, device=device), torch.randn(2, 4, 1, 16, 64, device=device)
    rows = RaggedRows.of([29], [4], device, torch.tensor([[3, 1]], dtype=torch.int32, device=device), 16)
    padded = BACKENDS[name].load()(q, k, v, rows, 0.125)
    exact = reference.verify_attention(q, k, v, rows, 0.125)
    torch.testing.assert_close(padded[:3], exact[:3], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("window", [thorough(1), 7, thorough(40)])
def test_a_sliding_window_hides_earlier_keys(name: str, window: int, device: torch.device) -> None:
    p = Problem(64, 5, 2, torch.float32, device, n_kv_heads=2, window=window)
    p.check(BACKENDS[name].load()(p.q, p.k, p.v, p.rows, p.scale, p.window))


@pytest.mark.parametrize("name", [name for name in KERNELS if BACKENDS[name].supports_graphs])
def test_a_kernel_that_supports_graphs_reads_lengths_on_the_device(name: str, device: torch.device) -> None:
    p = Problem(64, 5, 2, torch.float32, device)
    p.check(BACKENDS[name].load()(p.q, p.k, p.v, replace(p.rows, host=None), p.scale))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", [torch.float32, thorough(torch.bfloat16)])
def test_soft_caps_and_sinks_change_what_they_should(name: str, dtype: torch.dtype, device: torch.device) -> None:
    sinks = torch.tensor([-3.0, 0.0, 2.0, 5.0], device=device)
    features = [{"softcap": 0.7}, {"sinks": sinks}, {"softcap": 0.7, "sinks": sinks}]
    problems = [Problem(64, 5, 2, dtype, device, n_kv_heads=2, features=each) for each in ({}, *features)]
    for p, plain in zip(problems[1:], problems, strict=False):
        p.q, p.k, p.v, p.rows = plain.q, plain.k, plain.v, plain.rows
        p.check(BACKENDS[name].load()(p.q, p.k, p.v, p.rows, p.scale, **p.features))
    exact = [p.reference(torch.float32) for p in problems]
    assert all((one - other).abs().max() > 0.1 for one, other in itertools.combinations(exact, 2))


def test_a_rows_result_does_not_depend_on_the_lengths_of_the_others(device: torch.device) -> None:
    q, (k, v) = torch.randn(8, 4, 64, device=device), torch.randn(2, 4, 2, 300, 64, device=device)
    here, elsewhere = (
        verify_attention.ragged(q, k, v, RaggedRows.of(lengths, [2] * 4, device), 0.125)
        for lengths in ([9, 200, 0, 31], [290, 200, 129, 2])
    )
    assert torch.equal(here[2:4], elsewhere[2:4])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_caches_beyond_two_to_the_31_elements_are_addressed(device: torch.device) -> None:
    pool = torch.zeros(2, 33, 8, 65536, 128, dtype=torch.bfloat16, device=device)
    lengths, counts = [0] * 32 + [65000], [1] * 33
    pool[:, 32, :, 64000:65001] = torch.randn(2, 8, 1001, 128, device=device)
    rows = RaggedRows.of(lengths, counts, device)
    q = torch.randn(33, 8, 128, dtype=torch.bfloat16, device=device)
    out = verify_attention.ragged(q, *pool, rows, 0.09)
    alone = RaggedRows.of([65000], [1], device)
    assert torch.allclose(out[32:], reference.verify_attention(q[32:], *pool[:, 32:], alone, 0.09), atol=1e-2)
    blocks = 1 + torch.randperm(33 * 4096 - 1, device=device)[:4096].int()[None]
    blocks[0, -1] = 33 * 4096 - 1
    paged = pool.view(2, 33 * 4096, 8, 16, 128)
    row = RaggedRows.of([65535], [1], device, blocks, 16)
    out = verify_attention.ragged(q[:1], *paged, row, 0.09)
    assert torch.allclose(out, reference.verify_attention(q[:1], *paged, row, 0.09), atol=1e-2)
