"""All variants compute attention over ragged rows, at any shape, and nothing outside a row's length reaches them.

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

from kernels import reference, verify_attention
from kernels.check import build_pool, shuffle_pages
from kernels.registry import BACKENDS
from kernels.rows import RaggedRows
from kernels.verify_attention import choose_block_n
from tests.thorough import quick_first, thorough

HEAD_DIMS = (64, 80, 96, 128, 256)
COUNTS = (1, 2, 9, 16, 33)
GROUPS = (1, 4, 7)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
PAGE_SIZES = (16, 32, 64, 128)
KERNELS = [name for name, backend in BACKENDS.items() if backend.needs_triton]
CASES = [
    pytest.param(D, T, GROUPS[(i + j) % 3], DTYPES[(i + 2 * j + j // 3) % 3], id=f"D{D}-T{T}-case{5 * i + j}")
    for i, D in enumerate(HEAD_DIMS)
    for j, T in enumerate(COUNTS)
]


def lengths_around(block: int) -> list[int]:
    return [0, 1, block - 1, block, block + 1, 5]


class Problem:
    """Queries, pages poisoned with NaN past each row's last token, and the exact result."""

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
        lengths = lengths_around(choose_block_n(D, dtype.itemsize))
        counts = [T, max(T - 1, 1), 1, T, max(T // 2, 1), 0]
        ends = [length + count for length, count in zip(lengths, counts, strict=True)]
        table = shuffle_pages(len(ends), max(ends) + 3, page_size)
        self.rows = RaggedRows.build(lengths, counts, device, table.to(device), page_size)
        self.scale, self.window = D**-0.5, window
        # Views: neither queries nor pages are contiguous in the engine.
        self.q = torch.randn(n_kv_heads * group, sum(counts), D, device=device, dtype=dtype).transpose(0, 1)
        self.k, self.v = (
            build_pool([torch.randn(n_kv_heads, end, D, dtype=dtype) for end in ends], table, page_size).to(device)
            for _ in range(2)
        )
        self.features = features or {}

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
    p = Problem(D, T, group, dtype, device, page_size=PAGE_SIZES[(D + T) % 4])
    p.check(verify_attention.attend_ragged(p.q, p.k, p.v, p.rows, p.scale))


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "ragged"])
@pytest.mark.parametrize(("D", "T", "group", "dtype"), quick_first(CASES[::3], CASES[::9]))
def test_the_other_kernels_are_as_exact(name, D, T, group, dtype, device) -> None:
    p = Problem(D, T, group, dtype, device)
    p.check(BACKENDS[name].load()(p.q, p.k, p.v, p.rows, p.scale))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("window", [thorough(1), 7, thorough(40)])
def test_a_sliding_window_hides_earlier_keys(name: str, window: int, device: torch.device) -> None:
    p = Problem(64, 5, 2, torch.float32, device, n_kv_heads=2, window=window)
    p.check(BACKENDS[name].load()(p.q, p.k, p.v, p.rows, p.scale, p.window))


@pytest.mark.parametrize("name", [name for name in KERNELS if BACKENDS[name].supports_graphs])
def test_a_kernel_that_supports_graphs_reads_lengths_on_the_device(name: str, device: torch.device) -> None:
    p = Problem(64, 5, 2, torch.float32, device)
    p.check(BACKENDS[name].load()(p.q, p.k, p.v, replace(p.rows, lengths_and_counts=None), p.scale))


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
    table = shuffle_pages(4, 300, 16).to(device)
    q, (k, v) = torch.randn(8, 4, 64, device=device), torch.randn(2, 4 * 19 + 1, 2, 16, 64, device=device)
    here, elsewhere = (
        verify_attention.attend_ragged(q, k, v, RaggedRows.build(lengths, [2] * 4, device, table, 16), 0.125)
        for lengths in ([9, 200, 0, 31], [290, 200, 129, 2])
    )
    assert torch.equal(here[2:4], elsewhere[2:4])


def test_padding_tokens_past_the_table_change_nothing(device: torch.device) -> None:
    """A captured round has as many tokens in each row: those that a row does not need have no pages."""
    p = Problem(64, 5, 2, torch.float32, device)
    ends = p.rows.length + p.rows.count
    longest = int(ends.argmax())
    narrow = replace(p.rows, page_table=p.rows.pages[:, : -(-int(ends.max()) // 16)], lengths_and_counts=None)
    count = narrow.count.clone()
    count[longest] += 40
    # The row's new tokens come last, so that the others' stay where they are.
    start = narrow.query_start.clone()
    start[longest] = len(p.q)
    own = slice(int(p.rows.query_start[longest]), int(p.rows.query_start[longest] + p.rows.count[longest]))
    q = torch.cat([p.q, p.q[own], torch.randn(40, *p.q.shape[1:], device=device)])
    more = int(ends.max()) + torch.arange(40, device=device)
    position = torch.cat([p.rows.position, p.rows.position[own], more])
    rows = replace(narrow, query_start=start, count=count, position=position, max_count=int(count.max()))
    # What lies behind the row's end in its last page is what the padding has written there.
    k, v = p.k.nan_to_num(nan=1.0), p.v.nan_to_num(nan=1.0)
    out = verify_attention.attend_ragged(q, k, v, rows, p.scale)
    out[own] = out[len(p.q) :][: int(p.rows.count[longest])]
    p.check(out[: len(p.q)])


@pytest.mark.parametrize(("R", "T"), [(1, 1), (8, 1), (8, 5), (4, 17), (16, 16), (32, 16), (64, 5)])
def test_all_programs_of_a_launch_run_at_once_whatever_the_lengths(R: int, T: int, monkeypatch) -> None:
    """For the heads of an 8B model on an H100, whose multiprocessors have registers for two programs of most tiles."""
    monkeypatch.setattr(verify_attention, "count_multiprocessors", lambda _: 132)
    device = torch.device("meta")
    q, k = torch.empty(R * T, 32, 128, device=device), torch.empty(9, 8, 16, 128, device=device)
    launched: list[tuple[int, ...]] = []

    class Kernel:
        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            launched.append(grid)
            return lambda *_arguments, **_options: None

    monkeypatch.setattr(verify_attention, "_attend", Kernel())
    monkeypatch.setattr(verify_attention, "_merge", Kernel())
    monkeypatch.setattr(verify_attention, "require_triton", lambda _: None)
    for length in (500, 30_000):
        table = torch.empty(R, 2048, dtype=torch.int32, device=device)
        verify_attention.attend_ragged(q, k, k, RaggedRows.build([length] * R, [T] * R, device, table, 16), 0.1)
    (tiles, heads, splits), other = (grid for grid in launched if len(grid) == 3)
    assert other == (tiles, heads, splits)
    assert splits == 1 or tiles * heads * splits <= 132 * (3 if T * 4 <= 16 else 2)
    assert tiles * heads * (splits + 1) > 132 * 2 or splits == 64


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_caches_beyond_two_to_the_31_elements_are_addressed(device: torch.device) -> None:
    cache = torch.zeros(2, 33 * 4096, 8, 16, 128, dtype=torch.bfloat16, device=device)
    lengths, counts = [0] * 32 + [65000], [1] * 33
    cache[:, 32 * 4096 + 4000 :] = torch.randn(2, 96, 8, 16, 128, device=device)
    table = torch.arange(33 * 4096, dtype=torch.int32, device=device).view(33, 4096)
    rows = RaggedRows.build(lengths, counts, device, table, 16)
    q = torch.randn(33, 8, 128, dtype=torch.bfloat16, device=device)
    out = verify_attention.attend_ragged(q, *cache, rows, 0.09)
    alone = RaggedRows.build([65000], [1], device, table[32:], 16)
    assert torch.allclose(out[32:], reference.verify_attention(q[32:], *cache, alone, 0.09), atol=1e-2)
