"""Whether each kernel computes on this device what its reference does: small ragged inputs, run before it is relied on.

A kernel compiles for the device at hand, and a compiler, a driver or a card that nobody has tried may get it wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kernels import accept, kv_scatter, reference, verify_attention
from kernels.rows import RaggedRows

ATTENTIONS = {
    "ragged": verify_attention.ragged,
    "pad": verify_attention.pad,
    "split": verify_attention.split,
}
_COUNTS = (5, 4, 1, 3, 2, 5)
_ROLE, _OTHER_ROLE = 0, 3


class WrongKernelError(Exception):
    """A kernel's result is not its reference's."""


@dataclass(frozen=True, slots=True)
class Heads:
    """The shapes of a model's attention: `group` query heads share each of `n_kv` heads of width `dim`."""

    n_kv: int
    group: int
    dim: int
    dtype: torch.dtype


def failures(heads: Heads, attention: str, device: torch.device) -> dict[str, str]:
    """Return why kernels that rounds with `attention` rely on cannot be used, by name; nothing where all agree."""
    checks: dict[str, Callable[[], None]] = {
        attention: lambda: _attention(attention, heads, device),
        "kv_scatter": lambda: _scatter(heads, device),
        "accept": lambda: _accept(device),
    }
    found = {}
    for name, check in checks.items():
        try:
            check()
        except Exception as error:  # a compiler fails in its own ways
            found[name] = (str(error).strip() or type(error).__name__).splitlines()[0]
    return found


def _attention(name: str, heads: Heads, device: torch.device) -> None:
    """Compare with float32; the error may be twice that of PyTorch in the same dtype (FlashAttention's bound)."""
    block = verify_attention._block_n(heads.dim, heads.dtype.itemsize)
    lengths = [0, 1, block - 1, block, block + 1, 3 * block + 5]
    make = torch.Generator().manual_seed(0)
    n_slots, n_heads = max(lengths) + max(_COUNTS), heads.n_kv * heads.group
    q = torch.randn(n_heads, sum(_COUNTS), heads.dim, generator=make).to(device, heads.dtype).transpose(0, 1)
    k, v = torch.randn(2, len(lengths), heads.n_kv, n_slots, heads.dim, generator=make).to(device, heads.dtype)
    for r, (length, count) in enumerate(zip(lengths, _COUNTS, strict=True)):
        # What lies past a row's length must not reach anything.
        k[r, :, length + count :] = v[r, :, length + count :] = torch.nan
    rows, scale = RaggedRows.of(lengths, _COUNTS, device), heads.dim**-0.5
    for window in (None, block // 2 + 1):
        exact = reference.verify_attention(q.float(), k.float(), v.float(), rows, scale, window)
        theirs = (reference.verify_attention(q, k, v, rows, scale, window).float() - exact).abs().max()
        ours = (ATTENTIONS[name](q, k, v, rows, scale, window).float() - exact).abs().max()
        if not ours <= 2 * theirs + 1e-4:  # written so that NaN fails
            raise WrongKernelError(f"differs from its reference by {ours:.2g}, PyTorch by {theirs:.2g}")


def _scatter(heads: Heads, device: torch.device) -> None:
    make = torch.Generator().manual_seed(1)
    row = torch.tensor([0, 0, 2, 2, 2, 3], device=device)
    position = torch.tensor([0, 1, 9, 10, 11, 4], device=device)  # the last two of row 2 have no slot
    cache = torch.randn(2, 4, heads.n_kv, 10, heads.dim, generator=make).to(device, heads.dtype)
    new = torch.randn(2, heads.n_kv, 6, heads.dim, generator=make).to(device, heads.dtype).transpose(1, 2)
    expected = cache.clone()
    reference.kv_scatter(expected[0], expected[1], new[0], new[1], row, position)
    kv_scatter.kv_scatter(cache[0], cache[1], new[0], new[1], row, position)
    if not torch.equal(cache, expected):
        raise WrongKernelError("writes other slots than its reference")


def _accept(device: torch.device) -> None:
    """Compare both rules token for token, on the CPU's own results: integers and float64 noise leave no room."""
    S, T, C = 4, 4, 40
    make = torch.Generator().manual_seed(2)
    ids = torch.stack([torch.randperm(2 * C, generator=make)[:C] for _ in range(S * T)])
    logp = (torch.randn(S * T, C, generator=make) * 2).log_softmax(1)
    at = torch.arange(S * T).view(S, T)
    position = torch.arange(S)[:, None] * 31 + torch.arange(T) + 7
    keys = torch.randint(-(2**62), 2**62, (S,), generator=make)
    # The target's own tokens, so that drafts stand for a while; then a wrong one.
    own = reference.accept_coupled(
        ids, logp, at.view(-1, 1), position.view(-1, 1), at.new_empty(S * T, 0), keys.repeat_interleave(T), _ROLE
    )[1].view(S, T)  # fmt: skip
    draft = own[:, :-1].clone()
    for s in range(S):
        draft[s, s:] = 2 * C if s % 2 else reference.NO_TOKEN
    q = (ids.view(S, T, C)[:, :-1].flatten(0, 1), logp.view(S, T, C)[:, 1:].flatten(0, 1))
    inputs = (ids, logp, at, position, draft, keys)
    compared: list[tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = [
        (reference.accept_coupled, accept.coupled, (*inputs, _ROLE)),
        (reference.accept_maximal, accept.maximal, (*inputs, None, _ROLE, _OTHER_ROLE)),
        (reference.accept_maximal, accept.maximal, (*inputs, q, _ROLE, _OTHER_ROLE)),
    ]
    for plain, kernel, arguments in compared:
        found = kernel(*(_to(device, argument) for argument in arguments))
        if any(not torch.equal(a, b.cpu()) for a, b in zip(plain(*arguments), found, strict=True)):
            raise WrongKernelError("decides differently from its reference")


def _to(device: torch.device, argument: Any) -> Any:
    if isinstance(argument, tuple):
        return tuple(t.to(device) for t in argument)
    return argument.to(device) if isinstance(argument, torch.Tensor) else argument
