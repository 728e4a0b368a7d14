"""How close are the attention kernels to the memory bandwidth, and to the attention of other libraries?

On a GPU the Triton kernels are measured, on a CPU the native one. First every variant is checked against the float32
reference. Then each is timed on rows of unequal length (from half the context to all of it). A rate is the bytes of
keys and values that the rows hold, over the time; the table shows it as a share of the bandwidth of a large copy in the
same run. Inputs rotate among copies larger than the cache. `sdpa` is the engine's attention without kernels: padded,
with a mask.

    bassline bench kernels --json kernels.json
    bassline bench kernels --batches 8 --contexts 2048,8192 --tokens 1,8
    bassline bench kernels --shape 14x2x64 --batches 1,8 --contexts 512 --tokens 1,5    # as qwen2.5-coder-0.5b has them
    TRITON_INTERPRET=1 bassline bench kernels --tiny        # without a GPU: runs the script, measures nothing
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks._report import Report, build_parser, parse_numbers, print_table
from benchmarks._timing import count_copies, measure_copy_bandwidth, time_each
from decoding.models.device import get_device_name
from kernels import reference
from kernels.availability import INTERPRETED, KernelError, require_triton
from kernels.check import build_pool, shuffle_pages
from kernels.native_attention import attend_native, require_native
from kernels.registry import BACKENDS, VerifyAttention
from kernels.rows import RaggedRows

TRITON = {name: backend.load() for name, backend in BACKENDS.items() if backend.needs_triton}
NATIVE: dict[str, VerifyAttention] = {"native": attend_native}
OTHERS = ("sdpa", "flash_attn")
# FlashAttention's bound: at most twice the error that PyTorch makes in the same dtype.
_ERROR_FACTOR, _ERROR_FLOOR = 2.0, 1e-5
_PAGE_SIZE = {"cuda": 16, "cpu": 64}  # tokens, as the engine has them


def list_kernels(device: torch.device) -> dict[str, VerifyAttention]:
    """Return our kernels that run on `device`, by name. Raises KernelError if none does."""
    if device.type == "cpu" and not INTERPRETED:
        require_native(device)
        return NATIVE
    require_triton(device)
    return TRITON


@dataclass(frozen=True)
class Shape:
    """Heads and their dimension: an 8B model has 32 query heads over 8 KV heads of 128."""

    n_heads: int
    n_kv_heads: int
    D: int

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Read `32x8x128`."""
        return cls(*map(int, text.split("x")))


class AttentionInputs:
    """Random inputs of one verify: queries, pages in random order, and rows.

    `n_bytes` is the size of the rows' keys and values; `dense` holds them by row, as other libraries take them.
    """

    def __init__(
        self, shape: Shape, lengths: Sequence[int], counts: Sequence[int], dtype: torch.dtype, device: torch.device
    ) -> None:
        ends = [a + b for a, b in zip(lengths, counts, strict=True)]
        self.longest, page_size = max(ends), _PAGE_SIZE[device.type]
        table = shuffle_pages(len(ends), self.longest, page_size).to(device)
        self.rows = RaggedRows.build(lengths, counts, device, table, page_size)
        R, N = len(lengths), sum(counts)
        self.q = torch.randn(N, shape.n_heads, shape.D, device=device, dtype=dtype)
        self.dense = torch.randn(2, R, shape.n_kv_heads, self.longest, shape.D, device=device, dtype=dtype)
        # NaN past each row's end: what a kernel must not read.
        self.k, self.v = (
            build_pool([row[:, :end] for row, end in zip(rows, ends, strict=True)], table, page_size)
            for rows in self.dense
        )
        self.scale = shape.D**-0.5
        n_slots = sum(lengths) + N
        self.n_bytes = 2 * n_slots * shape.n_kv_heads * shape.D * dtype.itemsize

    def run(self, verify: Callable[..., torch.Tensor]) -> torch.Tensor:
        """Return [N, Hq, D] of one of our variants."""
        return verify(self.q, self.k, self.v, self.rows, self.scale)

    def build_sdpa(self) -> Callable[[], torch.Tensor]:
        """Return PyTorch's attention on the packed tiles of all rows, which must have equal numbers of tokens."""
        k, v = self.dense
        R, Hkv, L, D = k.shape
        T = self.rows.max_count
        group = self.q.shape[1] // Hkv
        tile = self.q.view(R, T, Hkv, group, D).permute(0, 2, 3, 1, 4).reshape(R, Hkv, group * T, D)
        position = self.rows.position.view(R, 1, T, 1).expand(R, group, T, 1).reshape(R, 1, group * T, 1)
        visible = torch.arange(L, device=tile.device) <= position
        mask = torch.zeros(visible.shape, device=tile.device, dtype=tile.dtype).masked_fill_(~visible, float("-inf"))
        return partial(F.scaled_dot_product_attention, tile, k, v, attn_mask=mask, scale=self.scale)

    def build_flash(self) -> Callable[[], torch.Tensor] | None:
        """Return FlashAttention over the same rows, if it is installed."""
        try:
            from flash_attn import flash_attn_with_kvcache  # noqa: PLC0415
        except ImportError:
            return None
        R = self.dense.shape[1]
        q = self.q.view(R, -1, *self.q.shape[1:])
        k, v = (t.transpose(1, 2).contiguous() for t in self.dense)
        ends = self.rows.length + self.rows.count
        return partial(flash_attn_with_kvcache, q, k, v, cache_seqlens=ends, causal=True, softmax_scale=self.scale)


def check(device: torch.device, *, tiny: bool) -> Iterator[dict[str, Any]]:
    """Yield, per shape and variant, the largest error against float32, and whether it is within the bound."""
    ours = list_kernels(device)
    dtypes = [torch.float32] if tiny else [torch.float32, torch.bfloat16]
    if ours is TRITON and not tiny:
        dtypes.append(torch.float16)
    shapes = [Shape(4, 2, 64)] if tiny else [Shape(4, 4, 64), Shape(8, 2, 128), Shape(28, 4, 128), Shape(8, 2, 256)]
    lengths, counts = [0, 1, 63, 5, 129], [2, 1, 3, 0, 2] if tiny else [8, 1, 33, 0, 4]
    for shape, dtype in product(shapes, dtypes):
        problem = AttentionInputs(shape, lengths, counts, dtype, device)
        q, k, v = (t.float() for t in (problem.q, problem.k, problem.v))
        exact = reference.verify_attention(q, k, v, problem.rows, problem.scale)
        theirs = float((problem.run(reference.verify_attention).float() - exact).abs().max())
        outs = {name: problem.run(variant) for name, variant in ours.items()}
        errors = {name: float((out.float() - exact).abs().max()) for name, out in outs.items()}
        for name, error in errors.items():
            yield {
                "heads": f"{shape.n_heads}x{shape.n_kv_heads}x{shape.D}",
                "dtype": str(dtype).removeprefix("torch."),
                "variant": name,
                "error": f"{error:.1e}",
                "PyTorch's": f"{theirs:.1e}",
                "ok": error <= _ERROR_FACTOR * theirs + _ERROR_FLOOR,  # false for NaN
            }


def sweep(
    shape: Shape,
    batches: Sequence[int],
    contexts: Sequence[int],
    tokens: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    bandwidth: float,
    until: float,
) -> Iterator[dict[str, Any]]:
    """Yield one row per batch, context and k + 1, largest contexts first, until `until` (seconds of perf_counter)."""
    ours = list_kernels(device)
    for context, batch, T in product(sorted(contexts, reverse=True), batches, tokens):
        if time.perf_counter() > until:
            return
        lengths = [context - T - (context // 2) * r // max(batch, 1) for r in range(batch)]
        first = AttentionInputs(shape, lengths, [T] * batch, dtype, device)
        n_others = 0 if INTERPRETED else count_copies(first.n_bytes) - 1
        others = [AttentionInputs(shape, lengths, [T] * batch, dtype, device) for _ in range(n_others)]
        problems = [first, *others]
        arms: dict[str, list[Callable[[], torch.Tensor]]] = {
            name: [partial(p.run, variant) for p in problems] for name, variant in ours.items()
        }
        arms["sdpa"] = [p.build_sdpa() for p in problems]
        if flash := [run for p in problems if (run := p.build_flash())]:
            arms["flash_attn"] = flash
        row: dict[str, Any] = {"batch": batch, "context": context, "k+1": T}
        for name in (*ours, *OTHERS):
            seconds = _time_arm(name, arms.get(name, []), device, is_ours=name in ours)
            row[f"{name} us"] = 1e6 * seconds if seconds else "-"
            row[f"{name} of copy"] = first.n_bytes / seconds / bandwidth if seconds else "-"
        yield row


def _time_arm(
    name: str, works: Sequence[Callable[[], torch.Tensor]], device: torch.device, *, is_ours: bool
) -> float | None:
    """Time an arm; None where another library does not support the shape."""
    try:
        return time_each(works, device) if works else None
    except Exception as error:
        if is_ours:
            raise
        print(f"{name} was not measured: {error}", file=sys.stderr)
        return None


def compute_figures(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the flat figures of a sweep: share of the copy bandwidth, and time over the time of our kernel, by arm.

    Our kernel is `ragged` on a GPU and `native` on a CPU.
    """
    flat: dict[str, float] = {}
    for row in rows:
        at = f"b{row['batch']}.c{row['context']}.t{row['k+1']}"
        ours = "ragged" if "ragged us" in row else "native"
        timed = [name for name in (*TRITON, *NATIVE, *OTHERS) if isinstance(row.get(f"{name} us"), float)]
        flat |= {f"{at}.{name}_of_copy": row[f"{name} of copy"] for name in timed}
        flat |= {f"{at}.{name}_over_{ours}": row[f"{name} us"] / row[f"{ours} us"] for name in timed}
    return flat


def main(argv: list[str] | None = None) -> int:
    """Check and measure the kernels; return 1 if one is wrong."""
    options = _parse_options(argv)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        list_kernels(device)
    except KernelError as error:
        print(error, file=sys.stderr)
        return 1
    name = "cpu (interpreter, not a measurement)" if INTERPRETED else get_device_name(device)
    report = Report("kernels", name, vars(options) | {"torch": torch.__version__})
    checked = list(check(device, tiny=options.tiny))
    print_table(checked)
    if not all(row["ok"] for row in checked):
        print("a kernel is wrong: nothing was measured", file=sys.stderr)
        return 1
    bandwidth = measure_copy_bandwidth(device)
    report.figures["copy_gb_per_s"] = bandwidth / 1e9
    print(f"\n{name}: a copy reads and writes {bandwidth / 1e9:.0f} GB/s")
    for row in sweep(
        Shape.parse("4x2x64" if options.tiny else options.shape),
        parse_numbers("1,2" if options.tiny else options.batches),
        parse_numbers("32" if options.tiny else options.contexts),
        parse_numbers("1,4" if options.tiny else options.tokens),
        torch.float32 if options.tiny else getattr(torch, options.dtype),
        device,
        bandwidth,
        time.perf_counter() + options.seconds,
    ):
        report.rows.append(row)
        print(f"batch {row['batch']}, context {row['context']}, k+1 {row['k+1']} done", file=sys.stderr)
    print_table(report.rows)
    report.figures |= compute_figures(report.rows)
    report.write(options.json)
    return 0


def _parse_options(argv: list[str] | None) -> argparse.Namespace:
    parser = build_parser("kernels", __doc__)
    parser.add_argument("--batches", default="1,2,4,8,16,32", help="rows, comma-separated")
    parser.add_argument(
        "--contexts", default="128,512,1024,2048,4096,8192", help="tokens of the longest row, comma-separated"
    )
    parser.add_argument("--tokens", default="1,4,8,16", help="k + 1, comma-separated")
    parser.add_argument("--shape", default="32x8x128", help="query heads x KV heads x head dimension")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--seconds", type=float, default=400.0, help="start no further row after this time")
    parser.add_argument("--tiny", action="store_true", help="a few tiny shapes; no measurement")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
