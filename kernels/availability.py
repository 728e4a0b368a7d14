"""Triton, where it is installed. Without it the kernel modules still import, and raise `KernelError` when called."""

from __future__ import annotations

import inspect
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
    "count_multiprocessors",
    "jit",
    "jit_unspecialized",
    "next_power_of_two",
    "require_triton",
    "tl",
    "triton",
]

# Triton reads TRITON_INTERPRET when a kernel is decorated, so the value at import is the one that counts.
INTERPRETED: bool = triton is not None and bool(triton.knobs.runtime.interpret)


class KernelError(RuntimeError):
    """A kernel cannot run on this machine; the message says why and what to do."""


def jit(function: Callable[..., Any]) -> Any:
    """Return `function` as a Triton kernel, or unchanged without Triton, so that its module can be imported."""
    return function if triton is None else triton.jit(function)


def jit_unspecialized(*arguments: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorate as `jit` does, and compile once for all values of `arguments`.

    Triton otherwise compiles again when an integer becomes 1 or a multiple of 16. Use this for arguments that change
    from round to round: one compilation takes longer than a hundred rounds.
    """

    def make(function: Callable[..., Any]) -> Any:
        # Triton ignores a name that is no parameter's.
        assert set(arguments) <= set(inspect.signature(function).parameters), arguments
        return function if triton is None else triton.jit(function, do_not_specialize=arguments)

    return make


def require_triton(device: torch.device) -> None:
    """Raise `KernelError` unless Triton kernels run on `device`."""
    if triton is None:
        raise KernelError(
            "Triton is not installed, so its kernels cannot run: run `pip install triton`, or use attention sdpa"
        )
    if device.type == "cpu" and not INTERPRETED:
        raise KernelError(
            "Triton kernels need a GPU: use attention sdpa on a CPU, or set TRITON_INTERPRET=1 in the environment "
            "to run them, very slowly, in Triton's interpreter"
        )


@cache
def count_multiprocessors(device: torch.device) -> int:
    """Return the number of multiprocessors of `device`; 4 on a CPU, so that tests in the interpreter split keys too."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


def next_power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least `n`: Triton requires block sizes of this form."""
    return 1 << max(n - 1, 0).bit_length()
