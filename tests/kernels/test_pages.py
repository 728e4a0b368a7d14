"""Every kernel computes what the reference computes, whatever pages the rows of a batch have and share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import kv_scatter, native_attention, reference
from kernels.registry import BACKENDS
from kernels.rows import RaggedRows, find_slots
from tests.thorough import scale_examples

CPU = torch.device("cpu")
FUNCTIONS = [name for name, backend in BACKENDS.items() if backend.function and name != "reference"]
PAGE_SIZES = st.sampled_from([16, 32, 64, 128])


@dataclass(frozen=True)
class Batch:
    """Rows whose tables are drawn from few pages, so that rows share them, also at different places."""

    lengths: list[int]
    counts: list[int]
    page_size: int
    n_pages: int
    seed: int
    window: int | None
    softcap: float | None
    has_sinks: bool

    def run(self, name: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what a backend and the reference give for heads of 32."""
        make = torch.Generator().manual_seed(self.seed)
        ends = [length + count for length, count in zip(self.lengths, self.counts, strict=True)]
        width = max(1, *(-(-end // self.page_size) for end in ends)) + 1
        table = torch.zeros(len(ends), width, dtype=torch.int32)
        read = torch.zeros(self.n_pages + 1, self.page_size, dtype=torch.bool)
        for r, end in enumerate(ends):
            n = -(-end // self.page_size)
            table[r, :n] = torch.randint(1, self.n_pages + 1, (n,), generator=make)
            slots = find_slots(table, torch.full((end,), r), torch.arange(end), self.page_size)
            read.view(-1)[slots] = True
        q = torch.randn(4, sum(self.counts), 32, generator=make).transpose(0, 1)
        pools = torch.randn(2, self.n_pages + 1, self.page_size, 2, 32, generator=make).transpose(2, 3)
        # What no row reads, the reserved page among it, must reach no result.
        pools.masked_fill_(~read[:, None, :, None], torch.nan)
        sinks = torch.linspace(-2, 2, 4).to(device) if self.has_sinks else None
        rows = RaggedRows.build(self.lengths, self.counts, device, table.to(device), self.page_size)
        arguments = (q.to(device), *pools.to(device), rows, 0.2, self.window)
        features: dict[str, Any] = {"softcap": self.softcap, "sinks": sinks}
        return BACKENDS[name].load()(*arguments, **features), reference.verify_attention(*arguments, **features)


@st.composite
def batches(draw: st.DrawFn, max_length: int = 150) -> Batch:
    """Draw rows of unequal lengths, some without new tokens."""
    rows = draw(st.lists(st.tuples(st.integers(0, max_length), st.integers(0, 6)), min_size=1, max_size=4))
    if not any(count for _, count in rows):
        rows[0] = (rows[0][0], 1)
    return Batch(
        [length for length, _ in rows],
        [count for _, count in rows],
        draw(PAGE_SIZES),
        draw(st.integers(1, 6)),
        draw(st.integers(0, 2**20)),
        draw(st.sampled_from([None, 1, 20, 100])),
        draw(st.sampled_from([None, 0.5])),
        draw(st.booleans()),
    )


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if BACKENDS[name].needs_triton])
@settings(deadline=None, max_examples=scale_examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=batches())
def test_triton_kernels_read_the_pages_of_each_row(name: str, device: torch.device, batch: Batch) -> None:
    actual, expected = batch.run(name, device)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@settings(deadline=None, max_examples=scale_examples(150))
@given(batch=batches(max_length=400))
def test_the_native_kernel_reads_the_pages_of_each_row(batch: Batch) -> None:
    actual, expected = batch.run("native", CPU)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=scale_examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    page_size=PAGE_SIZES,
    data=st.data(),
    n_heads=st.integers(1, 3),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_scattered_tokens_are_read_back_from_their_rows(
    page_size: int, data: st.DataObject, n_heads: int, dtype: torch.dtype, device: torch.device
) -> None:
    """Also by the rows that share their pages; a token past its table is written nowhere."""
    table = torch.tensor([[1, 2, 0], [1, 3, 4]], dtype=torch.int32)
    row = torch.tensor(data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=8)))
    place = st.integers(0, 2 * page_size - 1) | st.integers(3 * page_size, 4 * page_size)
    position = torch.tensor(data.draw(st.lists(place, min_size=len(row), max_size=len(row), unique=True)))
    slot = find_slots(table, row, position, page_size)
    assert ((slot == -1) == (position >= 3 * page_size)).all()
    pools, new = (
        torch.randn(2, 5, page_size, n_heads, 8).to(dtype).transpose(2, 3),
        torch.randn(2, len(row), n_heads, 8),
    )
    new = new.to(dtype)
    expected = pools.clone()
    for n, (r, at) in enumerate(zip(row.tolist(), position.tolist(), strict=True)):
        if at < 3 * page_size:
            page, offset = divmod(at, page_size)
            expected[:, table[r, page], :, offset] = new[:, n]
    for write, there in (
        (reference.write_kv, CPU),
        (native_attention.write_kv, CPU),
        (kv_scatter.write_kv, device),
    ):
        written = pools.clone().to(there)
        write(*written, *new.to(there), slot.to(there))
        assert torch.equal(written.cpu(), expected)
