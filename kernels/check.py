"""Compares each kernel with its reference on this device, on small ragged inputs, before the engine uses it.

Kernels are compiled for the device at hand, and not every combination of GPU, driver and compiler has been tested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

from kernels import (
    accept,
    byte_matmul,
    draw,
    kv_scatter,
    quantize_rows,
    recurrence,
    reference,
    rms_norm,
    rotary,
    silu_mul,
    triton_recurrence,
    verify_attention,
)
from kernels.registry import BACKENDS
from kernels.rows import NO_TOKEN, RaggedRows

_COUNTS = (5, 4, 1, 3, 2, 5)
_PAGE_SIZE = 16  # tokens
# Slots in a pool of 4 pages: within one, the last of one, a first one; two that are padding, and one past the pool.
_SLOTS = (1, 2 * _PAGE_SIZE - 1, 3 * _PAGE_SIZE, -1, -_PAGE_SIZE, 4 * _PAGE_SIZE)
_ROLE, _OTHER_ROLE = 0, 3
LAYER_KERNELS = ("rms_norm", "rotary", "silu_mul")
"""The kernels, beside attention, that `decoding/attention/flat_forward.py` needs on a GPU."""


class WrongKernelError(Exception):
    """A kernel's result differs from its reference's."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """The shape of a model's attention: `n_kv` key-value heads of width `dim`, each shared by `group` query heads."""

    n_kv: int
    group: int
    dim: int
    dtype: torch.dtype


def find_failures(shape: AttentionShape, attention: str, device: torch.device) -> dict[str, str]:
    """Return the reason for each kernel of backend `attention` that fails here, by name; empty if all are right."""
    checks: dict[str, Callable[[], None]] = {
        attention: lambda: _check_attention(attention, shape, device),
        "kv_scatter": lambda: _check_scatter(shape, device),
        "accept": lambda: _check_accept(device),
        "draw": lambda: _check_draw(device),
        "rms_norm": lambda: _check_rms_norm(shape, device),
        "rotary": lambda: _check_rotary(shape, device),
        "silu_mul": lambda: _check_silu_mul(shape, device),
    }
    failed = {}
    for name, check in checks.items():
        try:
            check()
        except Exception as error:  # compilers and drivers raise errors of many types
            failed[name] = _get_first_line(error)
    return failed


def check_recurrence(like: recurrence.TokenInputs, device: torch.device) -> str | None:
    """Return why the kernel of recurrent layers must not be used for tokens of the form of `like`; None if it may."""
    generator, n = torch.Generator().manual_seed(3), sum(_COUNTS)
    (n_heads, value_dim), key_dim = like.v.shape[1:], like.k.shape[2]
    starts = tuple([0, *accumulate(_COUNTS)][:-1])
    rows = recurrence.StateRows(tuple(range(len(_COUNTS))), starts, _COUNTS, device)
    q, k = (torch.randn(n, *like.k.shape[1:], generator=generator).to(device) * key_dim**-0.5 for _ in range(2))
    v = torch.randn(n, n_heads, value_dim, generator=generator).to(device)
    states = torch.randn(len(_COUNTS), n_heads, key_dim, value_dim, generator=generator).to(device)
    decay = torch.rand(n, *like.decay.shape[1:], generator=generator).to(device)
    beta = None if like.beta is None else torch.rand(n, n_heads, generator=generator).to(device)
    tokens = recurrence.TokenInputs(q, k, v, decay, beta)
    try:
        results = []
        for module in (recurrence, triton_recurrence):
            mine = states.clone()
            out, writes = module.run_tokens(mine, rows, tokens)
            module.advance_states(mine, rows, writes)
            results.append((out, mine))
        off = torch.stack([(a - b).abs().max() for a, b in zip(*results, strict=True)]).max()
    except Exception as error:  # compilers and drivers raise errors of many types
        return _get_first_line(error)
    return None if off <= 1e-3 else f"differs from its reference by {off:.2g}"  # true for NaN too


def check_bytes(dtype: torch.dtype, device: torch.device) -> str | None:
    """Return why the kernels of 8-bit floats must not be used beside numbers of a type; None if they may."""
    generator = torch.Generator().manual_seed(7)
    x, weight, bias = (
        torch.randn(*size, generator=generator).to(device, dtype) for size in ((40, 300), (100, 300), (100,))
    )
    try:
        values, scale = quantize_rows.quantize_rows(weight / 16)
        right, right_scale = reference.quantize_rows(weight / 16)
        _require_close(scale, right_scale)
        if not torch.equal(values.view(torch.uint8), right.view(torch.uint8)):
            raise WrongKernelError("rounds differently from its reference")
        for n, added in ((40, bias), (3, None)):
            arguments = (x[:n], values, scale[:, 0], added)
            _require_close(byte_matmul.byte_matmul(*arguments), reference.byte_matmul(*arguments))
    except Exception as error:  # compilers and drivers raise errors of many types
        return _get_first_line(error)
    return None


def _get_first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def shuffle_pages(n_rows: int, n_tokens: int, page_size: int, generator: torch.Generator | None = None) -> torch.Tensor:
    """Return a table, int32 [R, M], that gives each row of up to `n_tokens` pages of its own in random order."""
    n_pages = -(-n_tokens // page_size)
    return torch.randperm(n_rows * n_pages, generator=generator).view(n_rows, n_pages).int() + 1


def build_pool(states: Sequence[torch.Tensor], table: torch.Tensor, page_size: int) -> torch.Tensor:
    """Return a pool [P, H, page_size, D] that holds `states` [H, length, D] of each row, and NaN everywhere else."""
    H, _, D = states[0].shape
    pool = states[0].new_full((int(table.max()) + 1, H, page_size, D), torch.nan)
    for pages, row in zip(table, states, strict=True):
        reference.write_row(pool, pages, row)
    return pool


def _check_attention(name: str, shape: AttentionShape, device: torch.device) -> None:
    """Compare with float32: the error may be twice the error of PyTorch in the same dtype (FlashAttention's bound)."""
    block = verify_attention.choose_block_n(shape.dim, shape.dtype.itemsize)
    lengths = [0, 1, block - 1, block, block + 1, 3 * block + 5]
    generator = torch.Generator().manual_seed(0)
    ends, n_heads = [sum(each) for each in zip(lengths, _COUNTS, strict=True)], shape.n_kv * shape.group
    q = torch.randn(n_heads, sum(_COUNTS), shape.dim, generator=generator).to(device, shape.dtype).transpose(0, 1)
    table = shuffle_pages(len(lengths), max(ends), _PAGE_SIZE, generator)
    k, v = (
        build_pool(
            [torch.randn(shape.n_kv, end, shape.dim, generator=generator) for end in ends], table, _PAGE_SIZE
        ).to(device, shape.dtype)
        for _ in range(2)
    )
    rows, scale = RaggedRows.build(lengths, _COUNTS, device, table.to(device), _PAGE_SIZE), shape.dim**-0.5
    verify = BACKENDS[name].load()
    for window in (None, block // 2 + 1):
        exact = reference.verify_attention(q.float(), k.float(), v.float(), rows, scale, window)
        theirs = (reference.verify_attention(q, k, v, rows, scale, window).float() - exact).abs().max()
        ours = (verify(q, k, v, rows, scale, window).float() - exact).abs().max()
        if not ours <= 2 * theirs + 1e-4:  # true for NaN too
            raise WrongKernelError(f"differs from its reference by {ours:.2g}, PyTorch by {theirs:.2g}")


def _check_scatter(shape: AttentionShape, device: torch.device) -> None:
    generator = torch.Generator().manual_seed(1)
    slot = torch.tensor(_SLOTS, device=device)
    cache = torch.randn(2, 4, shape.n_kv, _PAGE_SIZE, shape.dim, generator=generator).to(device, shape.dtype)
    new = torch.randn(2, shape.n_kv, 6, shape.dim, generator=generator).to(device, shape.dtype).transpose(1, 2)
    expected = cache.clone()
    reference.write_kv(expected[0], expected[1], new[0], new[1], slot)
    kv_scatter.write_kv(cache[0], cache[1], new[0], new[1], slot)
    if not torch.equal(cache, expected):
        raise WrongKernelError("writes other slots than its reference")


def _check_rms_norm(shape: AttentionShape, device: torch.device) -> None:
    generator = torch.Generator().manual_seed(4)
    width = shape.n_kv * shape.group * shape.dim
    x, added = torch.randn(2, 6, width, generator=generator).to(device, shape.dtype)
    weight = torch.randn(width, generator=generator).to(device, shape.dtype)
    for other in (None, added):
        expected = reference.add_and_norm(x, other, weight, 1e-6)
        for ours, right in zip(rms_norm.add_and_norm(x, other, weight, 1e-6), expected, strict=True):
            _require_close(ours, right)


def _check_rotary(shape: AttentionShape, device: torch.device) -> None:
    generator = torch.Generator().manual_seed(5)
    slot = torch.tensor(_SLOTS, device=device)
    n_heads = shape.n_kv * (shape.group + 2)
    heads = torch.randn(6, n_heads * shape.dim, generator=generator).to(device, shape.dtype)
    cos, sin = (
        angle.repeat(1, 2).to(device, shape.dtype) for angle in torch.rand(2, 6, shape.dim // 2, generator=generator)
    )
    pools = torch.randn(2, 4, shape.n_kv, _PAGE_SIZE, shape.dim, generator=generator).to(device, shape.dtype)
    expected = pools.clone()
    right = reference.rotate_and_write(heads, cos, sin, expected[0], expected[1], slot)
    _require_close(rotary.rotate_and_write(heads, cos, sin, pools[0], pools[1], slot), right)
    _require_close(pools, expected)


def _check_silu_mul(shape: AttentionShape, device: torch.device) -> None:
    both = torch.randn(6, 2 * 1500, generator=torch.Generator().manual_seed(6)).to(device, shape.dtype)
    _require_close(silu_mul.silu_mul(both), reference.silu_mul(both))


def _require_close(ours: torch.Tensor, right: torch.Tensor) -> None:
    """Raise WrongKernelError for numbers that are more than four roundings of their type apart, or 1e-5."""
    off, at_most = (ours.float() - right.float()).abs(), max(4 * torch.finfo(right.dtype).eps, 1e-5)
    if not bool((off <= at_most * right.float().abs().clamp(min=1)).all()):  # true for NaN too
        raise WrongKernelError(f"differs from its reference by {off.max():.2g}")


def _check_accept(device: torch.device) -> None:
    """Compare both rules token for token with the CPU's results: the noise is the same bit for bit."""
    S, T, C = 4, 4, 40
    generator = torch.Generator().manual_seed(2)
    ids = torch.stack([torch.randperm(2 * C, generator=generator)[:C] for _ in range(S * T)])
    logp = (torch.randn(S * T, C, generator=generator) * 2).log_softmax(1)
    dist_row = torch.arange(S * T).view(S, T)
    position = torch.arange(S)[:, None] * 31 + torch.arange(T) + 7
    seeds = torch.randint(-(2**62), 2**62, (S,), generator=generator)
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
        (reference.accept_coupled, accept.accept_coupled, (*inputs, _ROLE)),
        (reference.accept_maximal, accept.accept_maximal, (*inputs, None, _ROLE, _OTHER_ROLE)),
        (reference.accept_maximal, accept.accept_maximal, (*inputs, q, _ROLE, _OTHER_ROLE)),
    ]
    for plain, kernel, arguments in compared:
        actual = kernel(*(_to(device, argument) for argument in arguments))
        if any(not torch.equal(a, b.cpu()) for a, b in zip(plain(*arguments), actual, strict=True)):
            raise WrongKernelError("decides differently from its reference")


def _check_draw(device: torch.device) -> None:
    """Compare tokens, and what they were drawn from: a greedy row, one without a filter, and rows with filters."""
    generator = torch.Generator().manual_seed(7)
    limits = torch.tensor([[1, 1, 0, 1], [0.7, 1, 0, 0], [1, 0.95, 0, 0], [1.3, 0.8, 0.02, 20]], device=device)
    logits = (torch.randn(len(limits), 9000, generator=generator) * 3).to(device)
    seeds, ids = (torch.randperm(n, generator=generator).to(device) + 7 for n in logits.shape)
    for keeps_q in (False, True):
        (ours, q), (right, right_q) = (
            draw_tokens(logits, limits, seeds, seeds * 31, _ROLE, ids=ids, keeps_q=keeps_q)
            for draw_tokens in (draw.draw_tokens, reference.draw_tokens)
        )
        if not torch.equal(ours, right):
            raise WrongKernelError("draws other tokens than its reference")
        if q is not None and right_q is not None:
            (q_ids, p), (right_ids, right_p) = (_sort_by_id(*each) for each in (q, right_q))
            if not torch.equal(q_ids, right_ids):
                raise WrongKernelError("draws from other tokens than its reference")
            _require_close(p, right_p)


def _sort_by_id(ids: torch.Tensor, logp: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the ids with mass of each distribution in ascending order, after -1 for the others, and probabilities."""
    ids, order = ids.masked_fill(logp.isneginf(), -1).sort(dim=1)
    return ids, logp.exp().gather(1, order)


def _to(device: torch.device, argument: Any) -> Any:
    if isinstance(argument, tuple):
        return tuple(t.to(device) for t in argument)
    return argument.to(device) if isinstance(argument, torch.Tensor) else argument
