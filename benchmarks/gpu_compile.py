"""What do the Triton kernels need on each GPU architecture: registers, spills, shared memory? Needs no GPU.

Each launcher runs on tensors without data, and Triton's compiler translates its launch for sm_80 (A100), sm_90 (H100,
H200) and sm_100 (B200), with the specializations that a real launch has. The registers are read from the machine code.
`programs/SM` is how many of the kernel's programs fit a multiprocessor at once.

    bassline bench gpu_compile --json gpu_compile.json
    bassline bench gpu_compile --only "attend, 1 token" --architectures 90
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from benchmarks._report import Report, print_table
from kernels import accept, kv_scatter, verify_attention
from kernels.availability import INTERPRETED, triton
from kernels.rows import RaggedRows

MULTIPROCESSORS = {80: 108, 90: 132, 100: 148}
"""Of an A100, H100 and B200, by the architecture's number."""
THREADS = 128  # a program of every launcher here: 4 warps
# Registers and threads of a multiprocessor, the same on all three; shared memory in bytes, of which a program also
# takes 1 KiB for the system (CUDA programming guide, "Compute Capabilities").
_REGISTERS, _THREADS = 65536, 2048
_SHARED = {80: 164 * 1024, 90: 228 * 1024, 100: 228 * 1024}
_SYSTEM_SHARED = 1024
# Registers are given to a warp in units of 256.
_REGISTER_UNIT = 256
_BF16 = torch.bfloat16


class CompilerError(RuntimeError):
    """The kernels cannot be compiled here; the message says why."""


@dataclass(frozen=True)
class Compiled:
    """One kernel as machine code: registers of a thread, bytes that a thread spills, bytes of shared memory."""

    launch: str
    kernel: str
    architecture: int
    registers: int
    spilled: int
    shared: int
    product: str

    @property
    def programs(self) -> int:
        """How many programs fit a multiprocessor at once."""
        warp = -(-self.registers * 32 // _REGISTER_UNIT) * _REGISTER_UNIT
        by_registers = _REGISTERS // warp // (THREADS // 32)
        by_shared = _SHARED[self.architecture] // (self.shared + _SYSTEM_SHARED)
        return min(by_registers, by_shared, _THREADS // THREADS)


def _attend(
    heads: int, kv_heads: int, D: int, tokens: int, dtype: torch.dtype = _BF16, **how: Any
) -> Callable[[], object]:
    """8 rows of 2048 slots, k + 1 = `tokens` new ones in each."""
    device = torch.device("meta")
    q = torch.empty(8 * tokens, heads, D, dtype=dtype, device=device)
    k, v = torch.empty(2, 8, kv_heads, 2048, D, dtype=dtype, device=device)
    rows = RaggedRows.of([2000] * 8, [tokens] * 8, device)
    return partial(verify_attention.ragged, q, k, v, rows, D**-0.5, **how)


def _scatter() -> None:
    cache, new = torch.empty(8, 8, 2048, 128, dtype=_BF16, device="meta"), torch.empty(40, 8, 128, dtype=_BF16)
    places = torch.empty(40, dtype=torch.int64, device="meta")
    kv_scatter.kv_scatter(cache, cache, new.to("meta"), new.to("meta"), places, places)


def _accept(rule: Callable[..., object], *more: object) -> object:
    """8 samples with drafts of 4 tokens, from distributions over 64 tokens."""
    ids, logp = torch.empty(40, 64, dtype=torch.int64, device="meta"), torch.empty(40, 64, device="meta")
    steps, seeds = torch.empty(8, 5, dtype=torch.int64, device="meta"), torch.empty(8, dtype=torch.int64, device="meta")
    return rule(ids, logp, steps, steps, steps[:, 1:], seeds, *more)


def _drafted() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(32, 64, dtype=torch.int64, device="meta"), torch.empty(32, 64, device="meta")


LAUNCHES: dict[str, Callable[[], object]] = {
    "attend, 1 token": _attend(32, 8, 128, 1),
    "attend, 5 tokens": _attend(32, 8, 128, 5),
    "attend, 16 tokens": _attend(32, 8, 128, 16),
    "attend, 16 tokens, window, softcap": _attend(32, 8, 128, 16, window=1024, softcap=50.0),
    "attend, 5 tokens, heads of 64": _attend(14, 2, 64, 5),
    "attend, 5 tokens, heads of 256": _attend(8, 2, 256, 5),
    "attend, 5 tokens, float32": _attend(32, 8, 128, 5, torch.float32),
    "kv_scatter": _scatter,
    "accept, coupled": lambda: _accept(accept.coupled, 1),
    "accept, maximal, lookup": lambda: _accept(accept.maximal, None, 1, 2),
    "accept, maximal, model": lambda: _accept(accept.maximal, _drafted(), 1, 2),
}
"""Every kernel as the engine launches it: the shapes of an 8B model, bf16, unless the name says otherwise."""
_KERNELS = ((verify_attention, "_attend"), (verify_attention, "_merge"), (kv_scatter, "_scatter"), (accept, "_accept"))
_DEVICE = (verify_attention, "n_multiprocessors")


def compile_all(architecture: int, names: list[str]) -> Iterator[Compiled]:
    """Yield the kernels of the launches `names`, compiled for sm_<architecture>. Raises CompilerError."""
    if triton is None:
        raise CompilerError("Triton is not installed: pip install triton")
    if INTERPRETED:
        raise CompilerError("TRITON_INTERPRET is set, and the interpreter compiles nothing: unset it")
    if not Path(triton.knobs.nvidia.ptxas.path).exists() or not Path(triton.knobs.nvidia.cuobjdump.path).exists():
        raise CompilerError("this build of Triton has neither ptxas nor cuobjdump")
    seen: set[str] = set()
    for name in names:
        with _recorded(architecture) as built:
            LAUNCHES[name]()
        for kernel in built:
            if kernel.hash not in seen:  # the merge of several launches is the same
                seen.add(kernel.hash)
                yield _described(name, kernel, architecture)


@contextmanager
def _recorded(architecture: int) -> Iterator[list[Any]]:
    """Let every launch of a kernel compile it for an architecture instead; gives the list that they are added to."""
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.runtime import driver  # noqa: PLC0415

    target = GPUTarget("cuda", architecture, 32)
    # What a launch asks about the device. Each architecture counts as a device of its own, so that none is served
    # what was compiled for another.
    absent = SimpleNamespace(
        get_current_device=lambda: architecture,
        get_current_stream=lambda device: 0,  # noqa: ARG005
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


def _described(launch: str, kernel: Any, architecture: int) -> Compiled:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        usage = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    used = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    code = kernel.asm["ptx"]
    return Compiled(
        launch,
        kernel.metadata.name.removeprefix("_"),
        architecture,
        used["REG"],
        used["STACK"] + used["LOCAL"],
        kernel.metadata.shared,
        next((name for name in ("tcgen05.mma", "wgmma", "mma.sync") if name in code), "-"),
    )


def table(compiled: list[Compiled]) -> list[dict[str, Any]]:
    """Return a line for each kernel of each launch, with the values of all architectures beside each other."""
    lines: dict[tuple[str, str], list[Compiled]] = {}
    for one in compiled:
        lines.setdefault((one.launch, one.kernel), []).append(one)
    columns: dict[str, Callable[[Compiled], object]] = {
        "registers": lambda one: one.registers,
        "spilled bytes": lambda one: one.spilled,
        "shared KiB": lambda one: f"{one.shared / 1024:.0f}",
        "programs/SM": lambda one: one.programs,
        "product": lambda one: one.product,
    }
    return [
        {"launch": launch, "kernel": kernel}
        | {name: _joined([str(value(one)) for one in ones]) for name, value in columns.items()}
        for (launch, kernel), ones in lines.items()
    ]


def _joined(values: list[str]) -> str:
    return values[0] if len(set(values)) == 1 else " / ".join(values)


def main(argv: list[str] | None = None) -> int:
    """Compile, print the table, write JSON if asked; return 1 where the kernels cannot be compiled."""
    parser = argparse.ArgumentParser(
        prog="bassline bench gpu_compile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=LAUNCHES, help="a launch (repeat for several); default: all")
    parser.add_argument("--architectures", default="80,90,100", help="comma-separated")
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON; - for standard output")
    options = parser.parse_args(argv)
    compiled: list[Compiled] = []
    for architecture in map(int, options.architectures.split(",")):
        try:
            compiled += compile_all(architecture, options.only or list(LAUNCHES))
        except CompilerError as error:
            print(error, file=sys.stderr)
            return 1
        print(f"sm_{architecture} compiled", file=sys.stderr)
    report = Report("gpu_compile", f"Triton {triton.__version__}", vars(options), rows=[vars(one) for one in compiled])
    for one in compiled:
        at = f"sm_{one.architecture}.{one.launch}.{one.kernel}"
        report.figures |= {
            f"{at}.registers": one.registers,
            f"{at}.spilled_bytes": one.spilled,
            f"{at}.shared_bytes": one.shared,
            f"{at}.programs_per_sm": one.programs,
        }
    if options.json != "-":
        print_table(table(compiled))
    report.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
