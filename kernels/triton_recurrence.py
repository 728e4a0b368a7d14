"""The recurrence of `recurrence.py` in Triton: one program is a row, a head and a part of its values.

The state of a head stays in registers while the program goes through the tokens of its row, so that a round reads it
once however long the drafts are, and a commit reads and writes it once.
"""

from __future__ import annotations

import torch

from kernels.availability import jit, next_power_of_two, require_triton, tl
from kernels.recurrence import StateRows, StateWrites, TokenInputs

_MAX_VALUES = 32  # of a program: with 128 parts of a key its state takes 32 registers of each of 128 threads


def run_tokens(states: torch.Tensor, rows: StateRows, tokens: TokenInputs) -> tuple[torch.Tensor, StateWrites]:
    """Return what each token reads, [N, H, V], and what it writes; `states` [S, H, K, V] stay as they are."""
    out, written = (tokens.v.new_empty(tokens.v.shape) for _ in range(2))  # contiguous, whatever `v` is
    _launch(states, rows, tokens, out, written, advances=False)
    return out, StateWrites(tokens.k, tokens.decay, written)


def advance_states(states: torch.Tensor, rows: StateRows, writes: StateWrites) -> None:
    """Advance the states [S, H, K, V] of the rows over their tokens, as `run_tokens` computed them."""
    tokens = TokenInputs(writes.k, writes.k, writes.w, writes.decay, None)  # q is not read, nothing is written
    _launch(states, rows, tokens, writes.w, writes.w, advances=True)


def _launch(
    states: torch.Tensor,
    rows: StateRows,
    tokens: TokenInputs,
    out: torch.Tensor,
    written: torch.Tensor,
    *,
    advances: bool,
) -> None:
    require_triton(states.device)
    _, H, K, V = states.shape
    assert states.is_contiguous()
    assert states.dtype == out.dtype == torch.float32
    q, k, v, decay, beta = (None if part is None else part.contiguous() for part in tokens)
    block = min(next_power_of_two(V), _MAX_VALUES)
    _run[(len(rows.slots), H, -(-V // block))](
        states,
        rows.slot,
        *rows.spans,
        q,
        k,
        v,
        decay,
        v if beta is None else beta,
        out,
        written,
        H=H,
        G=tokens.k.shape[1],
        K=K,
        V=V,
        BLOCK_K=next_power_of_two(K),
        BLOCK_V=block,
        PER_CHANNEL=tokens.decay.dim() == 3,
        DELTA=beta is not None,
        ADVANCES=advances,
    )


@jit
def _run(
    states_ptr,  # [S, H, K, V]
    slot_ptr,  # int64 [R]
    start_ptr,  # int64 [R]
    count_ptr,  # int64 [R]
    q_ptr,  # [N, G, K]
    k_ptr,  # [N, G, K]
    v_ptr,  # [N, H, V]
    decay_ptr,  # [N, H] or [N, H, K]
    beta_ptr,  # [N, H]
    out_ptr,  # [N, H, V]
    written_ptr,  # [N, H, V]
    H: tl.constexpr,
    G: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    PER_CHANNEL: tl.constexpr,
    DELTA: tl.constexpr,
    ADVANCES: tl.constexpr,
):
    """Go through the tokens of one row; write the state back if it `ADVANCES`, else what they read and write."""
    row, head = tl.program_id(0), tl.program_id(1)
    slot, start, count = tl.load(slot_ptr + row), tl.load(start_ptr + row), tl.load(count_ptr + row)
    x, y = tl.arange(0, BLOCK_K), tl.program_id(2) * BLOCK_V + tl.arange(0, BLOCK_V)
    in_key, in_value = x < K, y < V
    inside = in_key[:, None] & in_value[None, :]
    at = states_ptr + ((slot * H + head) * K + x[:, None]) * V + y[None, :]
    state = tl.load(at, mask=inside, other=0.0)
    for n in range(start, start + count):
        key_at = (n * G + head // (H // G)) * K + x
        value_at = (n * H + head) * V + y
        key = tl.load(k_ptr + key_at, mask=in_key, other=0.0)[:, None]
        if PER_CHANNEL:
            state *= tl.load(decay_ptr + (n * H + head) * K + x, mask=in_key, other=0.0)[:, None]
        else:
            state *= tl.load(decay_ptr + n * H + head)
        new = tl.load(v_ptr + value_at, mask=in_value, other=0.0)
        if DELTA:
            new = (new - tl.sum(state * key, axis=0)) * tl.load(beta_ptr + n * H + head)
        state += key * new[None, :]
        if not ADVANCES:
            query = tl.load(q_ptr + key_at, mask=in_key, other=0.0)[:, None]
            tl.store(out_ptr + value_at, tl.sum(state * query, axis=0), mask=in_value)
            tl.store(written_ptr + value_at, new, mask=in_value)
    if ADVANCES:
        tl.store(at, state, mask=inside)
