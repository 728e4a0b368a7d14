"""Compiles the Triton kernels for GPUs that are not here: `python compiling.py ARCHITECTURES LAUNCH...` prints JSON.

Each launcher runs on tensors without data, and Triton's compiler translates its launch for sm_80 (A100), sm_90 (H100,
H200) and sm_100 (B200), with the specializations that a real launch has. Registers are read from the machine code.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from kernels import (
    accept,
    byte_matmul,
    draw,
    kv_scatter,
    quantize_rows,
    recurrence,
    rms_norm,
    rotary,
    silu_mul,
    triton_recurrence,
    verify_attention,
)
from kernels.availability import triton
from kernels.rows import RaggedRows

MULTIPROCESSORS = {80: 108, 90: 132, 100: 148}
"""Of an A100, H100 and B200, by the architecture's number."""
NO_COMPILER = "this build of Triton has neither ptxas nor cuobjdump"
_BF16 = torch.bfloat16


def _attend(
    heads: int, kv_heads: int, D: int, tokens: int, dtype: torch.dtype = _BF16, **how: Any
) -> Callable[[], object]:
    """8 rows of up to 2048 tokens in pages of 16, k + 1 = `tokens` new ones in each."""
    device = torch.device("meta")
    q = torch.empty(8 * tokens, heads, D, dtype=dtype, device=device)
    k, v = torch.empty(2, 1025, 16, kv_heads, D, dtype=dtype, device=device).transpose(2, 3)
    rows = RaggedRows.build([2000] * 8, [tokens] * 8, device, torch.empty(8, 128, dtype=torch.int32, device=device), 16)
    return partial(verify_attention.attend_ragged, q, k, v, rows, D**-0.5, **how)


def _scatter() -> None:
    pool = torch.empty(1025, 8, 16, 128, dtype=_BF16, device="meta")
    new, slot = torch.empty(40, 8, 128, dtype=_BF16), torch.empty(40, dtype=torch.int64, device="meta")
    kv_scatter.write_kv(pool, pool, new.to("meta"), new.to("meta"), slot)


def _accept(rule: Callable[..., object], *more: object) -> object:
    """8 samples with drafts of 4 tokens, from distributions over 64 tokens."""
    ids, logp = torch.empty(40, 64, dtype=torch.int64, device="meta"), torch.empty(40, 64, device="meta")
    steps, seeds = torch.empty(8, 5, dtype=torch.int64, device="meta"), torch.empty(8, dtype=torch.int64, device="meta")
    return rule(ids, logp, steps, steps, steps[:, 1:], seeds, *more)


def _draw(V: int = 152_064, *, keeps_q: bool = False) -> None:
    """8 rows."""
    logits, limits = torch.empty(8, V, dtype=_BF16, device="meta"), torch.empty(8, 4, device="meta")
    seeds, ids = (torch.empty(n, dtype=torch.int64, device="meta") for n in (8, V))
    draw.draw_tokens(logits, limits, seeds, seeds, 1, ids=ids if keeps_q else None, keeps_q=keeps_q)


def _drafted() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(32, 64, dtype=torch.int64, device="meta"), torch.empty(32, 64, device="meta")


def _finish_layer(width: int = 4096, inner: int = 14336) -> None:
    """8 rows with 5 tokens: the sum and norm, and the activation, of a layer."""
    x, weight = torch.empty(40, width, dtype=_BF16, device="meta"), torch.empty(width, dtype=_BF16, device="meta")
    rms_norm.add_and_norm(x, x, weight, 1e-6)
    silu_mul.silu_mul(torch.empty(40, 2 * inner, dtype=_BF16, device="meta"))


def _rotate(heads: int = 32, kv_heads: int = 8, D: int = 128) -> None:
    pool = torch.empty(1025, kv_heads, 16, D, dtype=_BF16, device="meta")
    new = torch.empty(40, (heads + 2 * kv_heads) * D, dtype=_BF16, device="meta")
    angle, slot = torch.empty(40, D, dtype=_BF16, device="meta"), torch.empty(40, dtype=torch.int64, device="meta")
    rotary.rotate_and_write(new, angle, angle, pool, pool, slot)


def _multiply(tokens: int, dtype: torch.dtype = _BF16) -> None:
    """Queries, keys and values of so many tokens."""
    x, bias = torch.empty(tokens, 4096, dtype=dtype, device="meta"), torch.empty(6144, dtype=dtype, device="meta")
    weight = torch.empty(6144, 4096, dtype=torch.float8_e4m3fn, device="meta")
    byte_matmul.byte_matmul(x, weight, torch.empty(6144, device="meta"), bias)


def _recur() -> None:
    """8 rows with 5 tokens, of Qwen3-Next's shape."""
    device = torch.device("meta")
    rows = recurrence.StateRows((1,) * 8, tuple(range(0, 40, 5)), (5,) * 8, device)
    q, k = torch.empty(2, 40, 16, 128, device=device)
    v, decay = torch.empty(40, 32, 128, device=device), torch.empty(40, 32, device=device)
    states = torch.empty(8, 32, 128, 128, device=device)
    _, writes = triton_recurrence.run_tokens(states, rows, recurrence.TokenInputs(q, k, v, decay, decay))
    triton_recurrence.advance_states(states, rows, writes)


LAUNCHES: dict[str, Callable[[], object]] = {
    "attend, 1 token": _attend(32, 8, 128, 1),
    "attend, 5 tokens": _attend(32, 8, 128, 5),
    "attend, 16 tokens": _attend(32, 8, 128, 16),
    "attend, 16 tokens, window, softcap": _attend(32, 8, 128, 16, window=1024, softcap=50.0),
    "attend, 5 tokens, heads of 64": _attend(14, 2, 64, 5),
    "attend, 5 tokens, heads of 256": _attend(8, 2, 256, 5),
    "attend, 5 tokens, float32": _attend(32, 8, 128, 5, torch.float32),
    "kv_scatter": _scatter,
    "layer": _finish_layer,
    "layer of 896": partial(_finish_layer, 896, 4864),
    "rotary": _rotate,
    "rotary, heads of 64": partial(_rotate, 14, 2, 64),
    "bytes, 8 tokens": partial(_multiply, 8),
    "bytes, 40 tokens": partial(_multiply, 40),
    "bytes, 40 tokens, float16": partial(_multiply, 40, torch.float16),
    "bytes, 8 tokens, float32": partial(_multiply, 8, torch.float32),
    "bytes, quantize": lambda: quantize_rows.quantize_rows(torch.empty(512, 14336, dtype=_BF16, device="meta")),
    "recurrence": _recur,
    "draw": _draw,
    "draw, of 32,000 ids, recorded": partial(_draw, 32_000, keeps_q=True),
    "accept, coupled": lambda: _accept(accept.accept_coupled, 1),
    "accept, maximal, lookup": lambda: _accept(accept.accept_maximal, None, 1, 2),
    "accept, maximal, model": lambda: _accept(accept.accept_maximal, _drafted(), 1, 2),
}
"""Every kernel as the engine launches it: the shapes of an 8B model, bf16, unless the name says otherwise."""
_KERNELS = (
    (triton_recurrence, "_run"),
    (verify_attention, "_attend"),
    (verify_attention, "_merge"),
    (kv_scatter, "_scatter"),
    (rms_norm, "_add_and_norm"),
    (rotary, "_rotate_and_write"),
    (silu_mul, "_silu_mul"),
    (byte_matmul, "_byte_matmul"),
    (quantize_rows, "_quantize_rows"),
    (accept, "_accept"),
    (draw, "_read_part"),
    (draw, "_decide"),
)
_DEVICE = (verify_attention, "count_multiprocessors")


def compile_launches(architecture: int, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the kernels of the launches `names`, compiled for sm_<architecture>."""
    seen: set[str] = set()
    for name in names:
        if name.startswith("bytes") and architecture < 89:
            continue  # an A100 has no 8-bit floats
        with _recorded(architecture) as built:
            LAUNCHES[name]()
        for kernel in built:
            if kernel.hash not in seen:  # the merge of several launches is the same
                seen.add(kernel.hash)
                yield {"launch": name, "architecture": architecture, **_measure(kernel)}


@contextmanager
def _recorded(architecture: int) -> Iterator[list[Any]]:
    """Let every launch of a kernel compile it for an architecture instead; gives the list that they are added to."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    target = GPUTarget("cuda", architecture, 32)
    # What a launch asks about the device. Each architecture counts as a device of its own, so that none is served
    # what was compiled for another.
    absent = SimpleNamespace(
        get_current_device=lambda: architecture,
        get_current_stream=lambda device: 0,
        get_current_target=lambda: target,
    )
    built: list[Any] = []
    before = driver._active
    with ExitStack() as patches:
        patches.callback(driver.__dict__.__setitem__, "_active", before)
        driver.set_active(absent)
        for module, name in _KERNELS:
            patches.enter_context(patch.object(module, name, _Recorder(getattr(module, name), built)))
        patches.enter_context(patch.object(*_DEVICE, lambda _: MULTIPROCESSORS[architecture]))
        yield built


class _Recorder:
    """Stands for a kernel: `kernel[grid](...)` compiles and launches nothing."""

    def __init__(self, kernel: Any, built: list[Any]) -> None:
        self._kernel, self._built = kernel, built

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any, **options: Any) -> None:
            self._built.append(self._kernel.run(*args, grid=grid, warmup=True, **options))

        return launch


def _measure(kernel: Any) -> dict[str, Any]:
    """Registers of a thread, bytes that it spills, bytes of shared memory, and the instruction of its products."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        usage = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    used = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    return {
        "kernel": kernel.metadata.name.removeprefix("_"),
        "registers": used["REG"],
        "spilled": used["STACK"] + used["LOCAL"],
        "shared": kernel.metadata.shared,
        "product": next((name for name in ("tcgen05.mma", "wgmma", "mma.sync") if name in kernel.asm["ptx"]), "-"),
    }


if __name__ == "__main__":
    if not all(Path(getattr(triton.knobs.nvidia, tool).path).exists() for tool in ("ptxas", "cuobjdump")):
        sys.exit(NO_COMPILER)
    architectures, *launches = sys.argv[1:]
    rows = [row for each in architectures.split(",") for row in compile_launches(int(each), launches)]
    sys.stdout.write(json.dumps(rows))
