"""The attention for CPUs gives each token the reference's result, and the same bits whatever is computed with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import native_attention, reference
from kernels.availability import KernelError
from kernels.check import build_pool, shuffle_pages
from kernels.native_attention import attend_native, write_kv
from kernels.rows import RaggedRows
from tests.thorough import scale_examples

CPU = torch.device("cpu")
DTYPES = [torch.bfloat16, torch.float32]
Rows = list[tuple[int, int]]
AROUND_SPANS = st.one_of(st.integers(0, 600), st.integers(990, 1060), st.integers(2015, 2080))
"""Tokens of a row: in one span of the kernel, at the border of two, and of three."""


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder in which nothing is compiled yet."""
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path))
    native_attention.load_library.cache_clear()
    yield tmp_path
    native_attention.load_library.cache_clear()


def problem(
    rows: Rows, n_kv: int, group: int, dim: int, dtype: torch.dtype, page_size: int = 16
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, RaggedRows]:
    """Queries, keys and values of rows (length, count); NaN lies behind the end of each row."""
    made = torch.Generator().manual_seed(len(rows) + dim)
    ends = [length + count for length, count in rows]
    table = shuffle_pages(len(rows), max(ends) + 3, page_size, made)
    q = torch.randn(n_kv * group, sum(count for _, count in rows), dim, generator=made).to(dtype).transpose(0, 1)
    k, v = (
        build_pool([torch.randn(n_kv, end, dim, generator=made).to(dtype) for end in ends], table, page_size)
        for _ in range(2)
    )
    return q, k, v, RaggedRows.build(*map(list, zip(*rows, strict=True)), CPU, table, page_size)  # type: ignore[arg-type]


def assert_like_the_reference(actual: torch.Tensor, q, k, v, rows, scale, window=None, **features) -> None:  # type: ignore[no-untyped-def]
    exact = reference.verify_attention(q.float(), k.float(), v.float(), rows, scale, window, **features)
    tolerance = 4e-6 if q.dtype is torch.float32 else 2**-8
    torch.testing.assert_close(actual.float(), exact, rtol=tolerance, atol=tolerance)


@settings(deadline=None, max_examples=scale_examples(60))
@given(
    lengths=st.lists(st.tuples(AROUND_SPANS, st.integers(0, 40)), min_size=1, max_size=4),
    n_kv=st.integers(1, 3),
    group=st.integers(1, 7),
    dim=st.sampled_from([4, 8, 20, 64, 80, 128, 256]),
    window=st.sampled_from([None, 1, 5, 100]),
    softcap=st.sampled_from([None, 0.5]),
    has_sinks=st.booleans(),
    dtype=st.sampled_from(DTYPES),
)
def test_each_token_gets_what_the_reference_gives_it(
    lengths: Rows,
    n_kv: int,
    group: int,
    dim: int,
    window: int | None,
    softcap: float | None,
    has_sinks: bool,
    dtype: torch.dtype,
) -> None:
    if not any(count for _, count in lengths):
        return
    q, k, v, rows = problem(lengths, n_kv, group, dim, dtype)
    sinks = torch.linspace(-2, 2, n_kv * group).to(dtype) if has_sinks else None
    features = {"softcap": softcap, "sinks": sinks}
    actual = attend_native(q, k, v, rows, dim**-0.5, window, **features)  # type: ignore[arg-type]
    assert_like_the_reference(actual, q, k, v, rows, dim**-0.5, window, **features)


@settings(deadline=None, max_examples=scale_examples(40))
@given(
    others=st.lists(st.tuples(AROUND_SPANS, st.integers(1, 40)), max_size=3),
    length=AROUND_SPANS,
    count=st.integers(1, 33),
    dtype=st.sampled_from(DTYPES),
    window=st.sampled_from([None, 70, 1500]),
    has_sinks=st.booleans(),
)
def test_a_token_s_bits_do_not_depend_on_its_batch(
    others: Rows, length: int, count: int, dtype: torch.dtype, window: int | None, has_sinks: bool
) -> None:
    q, k, v, rows = problem([(length, count), *others], 2, 7, 64, dtype)
    sinks = torch.linspace(-2, 2, 14).to(dtype) if has_sinks else None
    together = attend_native(q, k, v, rows, 0.125, window, sinks=sinks)
    for t in range(count):
        row = RaggedRows.build([length + t], [1], CPU, rows.pages[:1], 16)
        alone = attend_native(q[t : t + 1], k, v, row, 0.125, window, sinks=sinks)
        assert torch.equal(alone[0], together[t]), t


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [20, 64])
@pytest.mark.parametrize("features", [{}, {"window": 70}, {"softcap": 0.5}])
def test_the_bits_do_not_depend_on_the_pages(dtype: torch.dtype, dim: int, features: dict[str, float]) -> None:
    lengths, counts = [0, 63, 129, 1300, 5], [3, 1, 5, 5, 0]
    ends = [length + count for length, count in zip(lengths, counts, strict=True)]
    q = torch.randn(sum(counts), 6, dim).to(dtype)
    states = [[torch.randn(2, end, dim).to(dtype) for end in ends] for _ in range(2)]
    found = []
    for page_size in (16, 32, 64, 128):
        shuffled = shuffle_pages(len(ends), max(ends), page_size)
        adjacent = torch.arange(1, shuffled.numel() + 1, dtype=torch.int32).view(shuffled.shape)
        for table in (adjacent, shuffled):
            k, v = (build_pool(each, table, page_size) for each in states)
            rows = RaggedRows.build(lengths, counts, CPU, table, page_size)
            found.append(attend_native(q, k, v, rows, 0.125, **features))  # type: ignore[arg-type]
            found.append(attend_native(q, k.contiguous(), v.contiguous(), rows, 0.125, **features))  # type: ignore[arg-type]
    assert all(torch.equal(found[0], each) for each in found[1:])


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    q, k, v, rows = problem([(1300, 5), *[(300, 5)] * 7], 2, 7, 64, torch.bfloat16)
    n = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = attend_native(q, k, v, rows, 0.125)
        torch.set_num_threads(2)
        two = attend_native(q, k, v, rows, 0.125)
    finally:
        torch.set_num_threads(n)
    assert torch.equal(one, two)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_block_may_see_up_to_its_end(dtype: torch.dtype) -> None:
    """All tokens of a drafter's block see each other."""
    q, k, v, rows = problem([(70, 5), (3, 5)], 2, 3, 64, dtype)
    seen = replace(rows, position=torch.tensor([74] * 5 + [7] * 5))
    assert_like_the_reference(attend_native(q, k, v, seen, 0.125), q, k, v, seen, 0.125)


def test_keys_and_values_may_differ_in_size() -> None:
    q, k, v, rows = problem([(70, 2), (3, 1)], 2, 2, 24, torch.float32)
    whole = attend_native(q, k, v, rows, 0.2)
    torch.testing.assert_close(attend_native(q, k, v[..., :16], rows, 0.2), whole[..., :16], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spoilt", ["q", "k", "v"])
def test_nan_stays_nan(spoilt: str, dtype: torch.dtype) -> None:
    """A model whose weights are broken is stopped by the NaN in its logits."""
    q, k, v, rows = problem([(20, 1)], 1, 1, 64, dtype)
    page = int(rows.pages[0, 0])
    {"q": q[0], "k": k[page, :, 4], "v": v[page, :, 4]}[spoilt].fill_(torch.nan)
    assert attend_native(q, k, v, rows, 0.125).isnan().all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_writes_what_the_reference_writes(dtype: torch.dtype) -> None:
    # The last four lie outside the pool: a C program must not write there.
    slot = torch.tensor([16, 47, 33, -1, -(2**40), 64, 2**40])
    keys, values = torch.randn(2, 4, 16, 2, 24).to(dtype).transpose(2, 3)
    new = torch.randn(2, 2, 7, 24).to(dtype).transpose(1, 2)
    expected = keys.clone(), values.clone()
    reference.write_kv(*expected, new[0], new[1], slot)
    write_kv(keys, values, new[0], new[1], slot)
    assert torch.equal(keys, expected[0])
    assert torch.equal(values, expected[1])


def test_nothing_is_read_past_the_end_of_a_row_or_of_its_table() -> None:
    q, k, v, rows = problem([(5, 1)], 1, 1, 16, torch.float32)
    expected = attend_native(q, k, v, rows, 0.25)
    past = replace(rows, position=torch.tensor([100_000_000]))
    assert torch.equal(attend_native(q, k, v, past, 0.25), expected)
    whole = problem([(15, 1)], 1, 1, 16, torch.float32)
    longer = replace(
        whole[3],
        page_table=whole[3].pages[:, :1],
        position=torch.tensor([100_000]),
        length=torch.tensor([99_999]).int(),
    )
    assert torch.equal(attend_native(*whole[:3], longer, 0.25), attend_native(*whole, 0.25))


def test_what_it_does_not_have_is_said() -> None:
    q, k, v, rows = problem([(2, 1)], 1, 1, 512, torch.float32)
    with pytest.raises(KernelError, match="its heads have 512 numbers, and the kernel takes 256 at most"):
        attend_native(q, k, v, rows, 1.0)
    q, k, v, rows = problem([(2, 1)], 1, 1, 16, torch.float16)
    with pytest.raises(KernelError, match="has no float16"):
        attend_native(q, k, v, rows, 1.0)
    q, k, v, rows = problem([(2, 1)], 1, 1, 16, torch.float32, 8)
    with pytest.raises(KernelError, match="its pages have 8 tokens, and the kernel takes multiples of 16"):
        attend_native(q, k, v, rows, 1.0)


@pytest.mark.thorough
def test_processes_that_compile_at_once_leave_one_whole_library(empty_cache: Path) -> None:
    program = "from kernels.native_attention import require_native; import torch; require_native(torch.device('cpu'))"
    running = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
    assert [each.wait() for each in running] == [0, 0, 0]
    assert sorted(path.suffix for path in (empty_cache / "kernels").iterdir()) == [".so", ".so"]


def test_a_compiler_s_error_is_one_sentence(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = empty_cache / "cc"
    broken.write_text("#!/bin/sh\necho 'fatal: no such header' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(KernelError, match=r"does not compile with .*cc: fatal: no such header$"):
        native_attention.require_native(CPU)
    assert not list((empty_cache / "kernels").iterdir())


@pytest.mark.thorough
def test_a_damaged_library_is_compiled_again(empty_cache: Path) -> None:
    program = "from kernels.native_attention import require_native; import torch; require_native(torch.device('cpu'))"
    subprocess.run([sys.executable, "-c", program], check=True)  # in a process of its own: this one loads a name once
    for path in (empty_cache / "kernels").iterdir():
        path.write_bytes(b"damaged")
    native_attention.require_native(CPU)
    assert_like_the_reference(attend_native(*(p := problem([(9, 2)], 1, 2, 16, torch.float32)), 0.25), *p, 0.25)


def test_a_cache_that_cannot_be_written_is_one_sentence(empty_cache: Path) -> None:
    (empty_cache / "kernels").write_text("a file where the folder should be")
    with pytest.raises(KernelError, match="the native attention cannot be compiled or loaded"):
        native_attention.require_native(CPU)
