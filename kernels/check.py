"""Compares each kernel with its reference on this device, on small ragged inputs, before the engine uses it.

Kernels are compiled for the device at hand, and not every combination of GPU, driver and compiler has been tested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from kernels import accept, kv_scatter, reference, verify_attention
from kernels.registry import BACKENDS
from kernels.rows import NO_TOKEN, RaggedRows

_COUNTS = (5, 4, 1, 3, 2, 5)
_ROLE, _OTHER_ROLE = 0, 3
_PAGE_SIZES = (16, 64)


class WrongKernelError(Exception):
    """A kernel's result differs from its reference's."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """The shape of a model's attention: `n_kv` key-value heads of width `dim`, each shared by `group` query heads."""

    n_kv: int
    group: int
    dim: int
    dtype: torch.dtype


def failures(shape: AttentionShape, attention: str, device: torch.device) -> dict[str, str]:
    """Return the reason for each kernel of backend `attention` that fails here, by name; empty if all are right."""
    checks: dict[str, Callable[[], None]] = {
        attention: lambda: _attention(attention, shape, device),
        "kv_scatter": lambda: _scatter(shape, device),
        "accept": lambda: _accept(device),
    }
    failed = {}
    for name, check in checks.items():
        try:
            check()
        except Exception as error:  # compilers and drivers raise errors of many types
            failed[name] = (str(error).strip() or type(error).__name__).splitlines()[0]
    return failed


def _attention(name: str, shape: AttentionShape, device: torch.device) -> None:
    """Compare with float32: the error may be twice the error of PyTorch in the same dtype (FlashAttention's bound)."""
    block = verify_attention.block_n(shape.dim, shape.dtype.itemsize)
    lengths = [0, 1, block - 1, block, block + 1, 3 * block + 5]
    make = torch.Generator().manual_seed(0)
    ends = [length + count for length, count in zip(lengths, _COUNTS, strict=True)]
    n_heads, scale = shape.n_kv * shape.group, shape.dim**-0.5
    q = torch.randn(n_heads, sum(_COUNTS), shape.dim, generator=make).to(device, shape.dtype).transpose(0, 1)
    states = torch.randn(2, len(lengths), shape.n_kv, max(ends), shape.dim, generator=make).to(device, shape.dtype)
    for r, end in enumerate(ends):
        # Values past a row's length must not change the result.
        states[:, r, :, end:] = torch.nan
    verify = BACKENDS[name].load()
    for page_size, window in product(_PAGE_SIZES, (None, block // 2 + 1)):
        blocks = reference.draw_blocks(ends, page_size, make).to(device)
        k, v = (reference.build_pool(each, blocks, page_size) for each in states)
        rows = RaggedRows.of(lengths, _COUNTS, device, blocks, page_size)
        exact = reference.verify_attention(q.float(), k.float(), v.float(), rows, scale, window)
        theirs = (reference.verify_attention(q, k, v, rows, scale, window).float() - exact).abs().max()
        ours = (verify(q, k, v, rows, scale, window).float() - exact).abs().max()
        if not ours <= 2 * theirs + 1e-4:  # true for NaN too
            raise WrongKernelError(f"differs from its reference by {ours:.2g}, PyTorch by {theirs:.2g}")


def _scatter(shape: AttentionShape, device: torch.device) -> None:
    make = torch.Generator().manual_seed(1)
    slot = torch.tensor([16, 17, 57, -1, 63, 40], device=device)  # the fourth token has no place
    pool = torch.randn(2, 4, 16, shape.n_kv, shape.dim, generator=make).to(device, shape.dtype).transpose(2, 3)
    new = torch.randn(2, shape.n_kv, 6, shape.dim, generator=make).to(device, shape.dtype).transpose(1, 2)
    expected = pool.clone()
    reference.kv_scatter(expected[0], expected[1], new[0], new[1], slot)
    kv_scatter.kv_scatter(pool[0], pool[1], new[0], new[1], slot)
    if not torch.equal(pool, expected):
        raise WrongKernelError("writes other slots than its reference")


def _accept(device: torch.device) -> None:
    """Compare both rules token for token with the CPU's results: the noise is the same bit for bit."""
    S, T, C = 4, 4, 40
    make = torch.Generator().manual_seed(2)
    ids = torch.stack([torch.randperm(2 * C, generator=make)[:C] for _ in range(S * T)])
    logp = (torch.randn(S * T, C, generator=make) * 2).log_softmax(1)
    dist_row = torch.arange(S * T).view(S, T)
    position = torch.arange(S)[:, None] * 31 + torch.arange(T) + 7
    seeds = torch.randint(-(2**62), 2**62, (S,), generator=make)
    # Draft the target's own tokens, which are accepted, then a wrong one.
    own = reference.accept_coupled(
        ids, logp, dist_row.view(-1, 1), position.view(-1, 1), dist_row.new_empty(S * T, 0),
        seeds.repeat_interleave(T), _ROLE,
    )[1].view(S, T)  # fmt: skip
    draft = own[:, :-1].clone()
    for s in range(S):
        draft[s, s:] = 2 * C if s % 2 else NO_TOKEN
    q = (ids.view(S, T, C)[:, :-1].flatten(0, 1), logp.view(S, T, C)[:, 1:].flatten(0, 1))
    inputs = (ids, logp, dist_row, position, draft, seeds)
    compared: list[tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = [
        (reference.accept_coupled, accept.coupled, (*inputs, _ROLE)),
        (reference.accept_maximal, accept.maximal, (*inputs, None, _ROLE, _OTHER_ROLE)),
        (reference.accept_maximal, accept.maximal, (*inputs, q, _ROLE, _OTHER_ROLE)),
    ]
    for plain, kernel, arguments in compared:
        actual = kernel(*(_to(device, argument) for argument in arguments))
        if any(not torch.equal(a, b.cpu()) for a, b in zip(plain(*arguments), actual, strict=True)):
            raise WrongKernelError("decides differently from its reference")


def _to(device: torch.device, argument: Any) -> Any:
    if isinstance(argument, tuple):
        return tuple(t.to(device) for t in argument)
    return argument.to(device) if isinstance(argument, torch.Tensor) else argument
