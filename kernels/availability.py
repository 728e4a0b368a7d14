"""Triton where it is installed. Without it the kernels can be imported, and say what is missing when they are used."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # Triton has no wheels for this platform
    triton = tl = None

__all__ = [
    "INTERPRETED",
    "KernelError",
    "jit",
    "jit_for_any",
    "n_multiprocessors",
    "next_power_of_two",
    "require",
    "tl",
    "triton",
]

# Decides on import how kernels are made, as Triton does: compiled for a GPU, or run by the interpreter on a CPU.
INTERPRETED: bool = triton is not None and bool(triton.knobs.runtime.interpret)


class KernelError(RuntimeError):
    """A kernel cannot run here; the message says what to do instead."""


def jit(function: Callable[..., Any]) -> Any:
    """Return `function` as a Triton kernel, or unchanged where there is no Triton to launch it."""
    return function if triton is None else triton.jit(function)


def jit_for_any(*arguments: str) -> Callable[[Callable[..., Any]], Any]:
    """Do the same without compiling anew for each new kind of value of `arguments` (1, multiples of 16, others).

    For what changes from round to round: a compilation takes longer than a hundred rounds.
    """

    def make(function: Callable[..., Any]) -> Any:
        return function if triton is None else triton.jit(function, do_not_specialize=arguments)

    return make


def require(device: torch.device) -> None:
    """Raise `KernelError` unless Triton kernels run on `device`."""
    if triton is None:
        raise KernelError(
            "Triton is not installed, so its kernels cannot run: pip install triton, or use attention sdpa"
        )
    if device.type == "cpu" and not INTERPRETED:
        raise KernelError(
            "Triton kernels need a GPU: use attention sdpa on a CPU, or set TRITON_INTERPRET=1 before the start "
            "to run them very slowly in Triton's interpreter"
        )


@cache
def n_multiprocessors(device: torch.device) -> int:
    """Programs that `device` runs side by side; under the interpreter a number that makes tests split as a GPU does."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


def next_power_of_two(n: int) -> int:
    """Return the least power of two that is at least `n` (Triton's block sizes are powers of two)."""
    return 1 << max(n - 1, 0).bit_length()
