"""Each kernel's definition in plain PyTorch: the reference of checks, tests and benchmarks."""

from __future__ import annotations

import torch

from kernels.draw import N_CANDIDATES
from kernels.noise import draw_gumbel, draw_uniform
from kernels.quantize_rows import LARGEST, TINY
from kernels.rows import NO_TOKEN, RaggedRows


def verify_attention(
    q: torch.Tensor,  # [N, Hq, D]
    k: torch.Tensor,  # [P, Hkv, page_size, D]
    v: torch.Tensor,  # [P, Hkv, page_size, D]
    rows: RaggedRows,
    scale: float,
    window: int | None = None,
    *,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,  # [Hq]
) -> torch.Tensor:
    """Return [N, Hq, D], computed in the dtype of the arguments; see `verify_attention.attend_ragged`."""
    out = torch.zeros_like(q)
    group = q.shape[1] // k.shape[1]
    for r, (start, count, length) in enumerate(
        zip(rows.query_start.tolist(), rows.count.tolist(), rows.length.tolist(), strict=True)
    ):
        mine = slice(start, start + count)
        keys, values = (read_row(pool, rows.pages[r], length + count) for pool in (k, v))
        place = torch.arange(length + count, device=q.device)
        position = rows.position[mine, None]
        visible = place <= position
        if window is not None:
            visible &= place > position - window
        keys, values = (t.repeat_interleave(group, dim=0) for t in (keys, values))
        score = torch.einsum("thd,hld->htl", q[mine], keys) * scale
        if softcap is not None:
            score = (score / softcap).tanh() * softcap
        score = score.masked_fill(~visible, float("-inf"))
        if sinks is not None:
            score = torch.cat([score, sinks.to(score.dtype)[:, None, None].expand(-1, count, 1)], dim=-1)
        weight = score.softmax(dim=-1)[..., : len(place)]
        out[mine] = torch.einsum("htl,hld->thd", weight, values)
    return out


def read_row(pool: torch.Tensor, pages: torch.Tensor, length: int) -> torch.Tensor:
    """Return the first `length` tokens, [H, length, D], of a row with `pages` [M] in a pool [P, H, page_size, D]."""
    n_pages = -(-length // pool.shape[2])
    return pool[pages[:n_pages].long()].transpose(0, 1).flatten(1, 2)[:, :length]


def write_row(pool: torch.Tensor, pages: torch.Tensor, states: torch.Tensor) -> None:
    """Write `states` [H, length, D] where `read_row` reads them, so that checks can start from rows."""
    for page, part in zip(pages.tolist(), torch.split(states, pool.shape[2], dim=1), strict=False):
        pool[page, :, : part.shape[1]] = part


def write_kv(
    keys: torch.Tensor,  # [P, Hkv, page_size, D]
    values: torch.Tensor,  # [P, Hkv, page_size, D]
    new_keys: torch.Tensor,  # [N, Hkv, D]
    new_values: torch.Tensor,  # [N, Hkv, D]
    slot: torch.Tensor,  # [N]
) -> None:
    """Write each token's keys and values to its slot, page * page_size + offset; skip slots outside the pool."""
    n_pages, _, page_size, _ = keys.shape
    for n, at in enumerate(slot.tolist()):
        if 0 <= at < n_pages * page_size:
            page, offset = divmod(at, page_size)
            keys[page, :, offset], values[page, :, offset] = new_keys[n], new_values[n]


def add_and_norm(
    x: torch.Tensor, added: torch.Tensor | None, weight: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (x + added, its RMSNorm), both [N, H]; see `rms_norm.add_and_norm`."""
    total = x if added is None else x + added
    wide = total.float()
    scale = (wide.square().mean(dim=-1, keepdim=True) + epsilon).rsqrt()
    return total, weight * (wide * scale).to(x.dtype)


def rotate_and_write(
    heads: torch.Tensor,  # [N, (Hq + 2 Hkv) D]
    cos: torch.Tensor,  # [N, D]
    sin: torch.Tensor,  # [N, D]
    keys: torch.Tensor,  # [P, Hkv, page_size, D]
    values: torch.Tensor,  # [P, Hkv, page_size, D]
    slot: torch.Tensor,  # [N]
) -> torch.Tensor:
    """Return the rotated queries [N, Hq, D] and write rotated keys, and values; see `rotary.rotate_and_write`."""
    n_kv, D = keys.shape[1], keys.shape[3]
    split = heads.view(len(heads), -1, D)
    unrotated, new_values = split[:, :-n_kv].float(), split[:, -n_kv:]
    left, right = unrotated.chunk(2, dim=-1)
    turned = torch.cat((-right, left), dim=-1)
    rotated = (unrotated * cos[:, None].float() + turned * sin[:, None].float()).to(heads.dtype)
    write_kv(keys, values, rotated[:, -n_kv:], new_values, slot)
    return rotated[:, :-n_kv]


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up [N, I]; see `silu_mul.silu_mul`."""
    gate, up = gate_up.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate.float()).to(gate.dtype) * up


def quantize_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (E4M3 values [M, K], scales [M, 1]) of x; see `quantize_rows.quantize_rows`."""
    scale = x.float().abs().amax(dim=1, keepdim=True).clamp(min=TINY) / LARGEST
    return (x.float() / scale).to(torch.float8_e4m3fn), scale


def byte_matmul(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return x @ (weight * scale).T + bias, [M, N]; see `byte_matmul.byte_matmul`."""
    out = (x.float() @ weight.float().T) * scale
    return (out if bias is None else out + bias.float()).to(x.dtype)


def accept_coupled(
    ids: torch.Tensor,  # int64 [N, C]
    logp: torch.Tensor,  # float32 [N, C]
    dist_row: torch.Tensor,  # int64 [S, T]
    position: torch.Tensor,  # int64 [S, T]
    draft: torch.Tensor,  # int64 [S, T - 1]
    seeds: torch.Tensor,  # int64 [S]
    role: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (accepted [S], emitted [S, T]) of the Gumbel-coupled rule; see `kernels.accept.accept_coupled`."""
    S, T = dist_row.shape
    accepted, emitted = dist_row.new_zeros(S), dist_row.new_full((S, T), NO_TOKEN)
    for s in range(S):
        for t in range(T):
            row = dist_row[s, t]
            emitted[s, t] = _draw(ids[row], logp[row], seeds[s], position[s, t], role)
            if t == T - 1 or emitted[s, t] != draft[s, t]:
                accepted[s] = t
                break
    return accepted, emitted


def accept_maximal(
    ids: torch.Tensor,  # int64 [N, C]
    logp: torch.Tensor,  # float32 [N, C]
    dist_row: torch.Tensor,  # int64 [S, T]
    position: torch.Tensor,  # int64 [S, T]
    draft: torch.Tensor,  # int64 [S, T - 1]
    seeds: torch.Tensor,  # int64 [S]
    q: tuple[torch.Tensor, torch.Tensor] | None,  # ids and logp [S * (T - 1), Cq]
    accept_role: int,
    residual_role: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (accepted [S], emitted [S, T]) of speculative sampling; see `kernels.accept.accept_maximal`."""
    S, T = dist_row.shape
    accepted, emitted = dist_row.new_zeros(S), dist_row.new_full((S, T), NO_TOKEN)
    for s in range(S):
        for t in range(T):
            row = dist_row[s, t]
            p, token = logp[row].exp(), draft[s, t] if t < T - 1 else None
            left = p
            if token is not None and token != NO_TOKEN:
                q_ids, q_p = (token[None], p.new_ones(1)) if q is None else (t_[s * (T - 1) + t] for t_ in q)
                q_p = q_p if q is None else q_p.exp()
                u = draw_uniform(seeds[s : s + 1], position[s, t : t + 1], accept_role)[0]
                if u * _get_probability(q_ids, q_p, token) < _get_probability(ids[row], p, token):
                    emitted[s, t] = token
                    continue
                residual = (p - torch.stack([_get_probability(q_ids, q_p, token) for token in ids[row]])).clamp(min=0)
                left = residual if residual.sum() > 0 else p
            accepted[s] = t
            emitted[s, t] = _draw(ids[row], left.log(), seeds[s], position[s, t], residual_role)
            break
    return accepted, emitted


def draw_tokens(
    logits: torch.Tensor,  # [R, V]
    limits: torch.Tensor,  # float32 [R, 4]
    seeds: torch.Tensor,  # int64 [R]
    position: torch.Tensor,  # int64 [R]
    role: int,
    *,
    ids: torch.Tensor | None = None,  # int64 [V]
    keeps_q: bool = False,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor] | None]:
    """Return a token of each row, and what it was drawn from; see `kernels.draw.draw_tokens`."""
    temperature, top_p, min_p, top_k = limits[:, :, None].unbind(dim=1)  # [R, 1] each
    scaled, token = (logits.float() / temperature).sort(dim=1, descending=True, stable=True)
    token = token if ids is None else ids[token]
    rank = torch.arange(logits.shape[1], device=logits.device)
    is_whole = (top_p == 1) & (min_p == 0) & (top_k == 0) & (not keeps_q)
    total = scaled.logsumexp(dim=1, keepdim=True)
    width = torch.where(top_k > 0, top_k, N_CANDIDATES).clamp(max=N_CANDIDATES)
    scaled = scaled.masked_fill((rank >= width) & ~is_whole, float("-inf"))
    total = torch.where(top_k > 0, scaled.logsumexp(dim=1, keepdim=True), total)
    p = (scaled - total).exp()
    keep = ((p.cumsum(dim=1) - p < top_p) & (p >= min_p * p[:, :1])) | (rank == 0) | is_whole
    logp = scaled.masked_fill(~keep, float("-inf")).log_softmax(dim=1)
    best = (logp.double() + draw_gumbel(seeds, position, role, token)).argmax(dim=1, keepdim=True)
    drawn = token.gather(1, best)[:, 0]
    if not keeps_q:
        return drawn, None
    q_ids = (-1 - torch.arange(N_CANDIDATES, device=logits.device)).repeat(len(logits), 1)
    q_logp = torch.full_like(q_ids, float("-inf"), dtype=torch.float32)
    n = min(N_CANDIDATES, logits.shape[1])
    q_ids[:, :n], q_logp[:, :n] = token[:, :n], logp[:, :n]
    return drawn, (q_ids, q_logp)


def _draw(ids: torch.Tensor, logp: torch.Tensor, seed: torch.Tensor, position: torch.Tensor, role: int) -> torch.Tensor:
    """Return argmax of logp + Gumbel noise among `ids` [C]."""
    noise = draw_gumbel(seed[None], position[None], role, ids[None])[0]
    return ids[(logp.double() + noise).argmax()]


def _get_probability(ids: torch.Tensor, p: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    """Return the probability `p` [C] of `token`, 0 where it is not among `ids` [C]."""
    return (p * (ids == token)).sum()
