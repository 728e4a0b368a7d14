"""PyTorch's attention over the ragged cache, registered with transformers as `ragged_cache`: the backend `sdpa`.

It is registered without a mask function, so that transformers builds no mask and does not ask the cache for one length
of all rows; the masks here handle causality and unequal lengths. The queries of all heads that share a key-value head
form one tile (GQA packing), so that keys and values are read once and not repeated per head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.nn import functional as F
from transformers import AttentionInterface

from decoding.memory.cache import Held
from decoding.memory.layout import Layout

ATTENTION_NAME = "ragged_cache"
# Tensors that some models pass to their attention and that do not change its result.
_IGNORED = ("position_ids", "cache_position")
# PyTorch computes attention in blocks of 32, 64 or 256 queries, and sums in another order in a last block of fewer than
# four. Padding to a multiple of four avoids such a block, so that a token's result does not depend on their number.
_QUERY_MULTIPLE = 4

AttendGroup = Callable[[Layout, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Returns [N, Hq, Dv] of queries [Hq, N, D] over the keys and values [R, Hkv, S, D] of one group of rows."""


class UnsupportedAttentionError(RuntimeError):
    """The model's attention needs a feature that ours lacks."""


def ragged_cache_attention(
    module: torch.nn.Module,  # noqa: ARG001 (transformers' calling convention)
    query: torch.Tensor,  # [1, Hq, N, D], packed
    key: Held,  # [R, Hkv, S, D], the cache's buffers
    value: Held,  # [R, Hkv, S, D]
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    layout: Layout | None = None,
    masks: MaskStore | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,  # [Hq]
    **kwargs: object,
) -> tuple[torch.Tensor, None]:
    """Return [1, N, Hq, Dv]: each packed token attends to its own row's slots up to its own position.

    `softcap` limits the scores (Gemma 2). `s_aux` are sinks: the scores of one further key per head whose value is
    zero (gpt-oss). Raises `UnsupportedAttentionError` for a model that needs more than that.
    """
    if layout is None or masks is None:
        raise UnsupportedAttentionError("this model does not pass keyword arguments to its attention")
    check_supported(attention_mask, kwargs)

    def attend(group: Layout, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        at, attended = 0, []
        for part in group.parts:
            rows = slice(part.first_slot - group.first_slot, part.first_slot - group.first_slot + part.n_rows)
            n = sum(part.counts)
            mask = masks.get(part, q.shape[0] // k.shape[1], sliding_window, q.dtype)
            attended.append(attend_rows(q[:, at : at + n], k[rows], v[rows], part, mask, scaling, softcap, s_aux))
            at += n
        return attended[0] if len(attended) == 1 else torch.cat(attended)

    return by_group(layout, query[0], key, value, attend).unsqueeze(0).contiguous(), None


def by_group(layout: Layout, query: torch.Tensor, key: Held, value: Held, attend: AttendGroup) -> torch.Tensor:
    """Return [N, Hq, Dv] of queries [Hq, N, D], each group of `layout` attended by a call of its own."""
    (first, *others), out = layout.groups, None
    if not others and first.tokens is None:
        assert not isinstance(key, tuple)
        assert not isinstance(value, tuple)
        return attend(first, query, key, value)
    for i, group in enumerate(layout.groups):
        keys, values = ((held[i] if isinstance(held, tuple) else held) for held in (key, value))
        own = attend(group, query[:, group.tokens], keys, values)
        out = own.new_empty(query.shape[1], *own.shape[1:]) if out is None else out
        out[group.tokens] = own
    assert out is not None
    return out


def attend_rows(
    query: torch.Tensor,  # [Hq, N, D], packed
    key: torch.Tensor,  # [R, Hkv, S, D]
    value: torch.Tensor,  # [R, Hkv, S, D]
    layout: Layout,
    mask: torch.Tensor,  # [R, 1, M, L]
    scaling: float | None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,  # [Hq]
) -> torch.Tensor:
    """Return [N, Hq, Dv]: each packed token attends to the slots of its row that `mask` leaves."""
    R, Hkv, _, D = key.shape
    Dv = value.shape[3]
    Hq, T, L = query.shape[0], layout.gather.shape[1], layout.attended
    group = Hq // Hkv
    tokens = query.transpose(0, 1)  # [N, Hq, D]
    rows = tokens if layout.is_rectangular else tokens[layout.gather.flatten()]
    # [R, T, Hkv, g, D] -> [R, Hkv, g * T, D]
    tile = rows.reshape(R, T, Hkv, group, D).permute(0, 2, 3, 1, 4).reshape(R, Hkv, group * T, D)
    keys, values = key[:, :, :L], value[:, :, :L]
    sinks = None if s_aux is None else s_aux.view(Hkv, group).repeat_interleave(T, dim=1)
    if extra := mask.shape[2] - group * T:
        tile = F.pad(tile, (0, 0, 0, extra))
        sinks = None if sinks is None else F.pad(sinks, (0, extra))
    if softcap is None and sinks is None:
        out = F.scaled_dot_product_attention(tile, keys, values, attn_mask=mask, scale=scaling)
    else:
        out = _attend(tile, keys, values, mask, D**-0.5 if scaling is None else scaling, softcap, sinks)
    out = out[:, :, : group * T].reshape(R, Hkv, group, T, Dv).permute(0, 3, 1, 2, 4).reshape(R * T, Hq, Dv)
    if not layout.is_rectangular:
        out = out[layout.scatter]
    return out


def _attend(
    tile: torch.Tensor,  # [R, Hkv, g * T, D]
    keys: torch.Tensor,  # [R, Hkv, L, D]
    values: torch.Tensor,  # [R, Hkv, L, Dv]
    mask: torch.Tensor,  # [R, 1, g * T, L]
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,  # [Hkv, g * T]
) -> torch.Tensor:
    """Return [R, Hkv, g * T, Dv]: attention with soft caps and sinks, which PyTorch's function does not have."""
    score = (tile @ keys.transpose(2, 3)).float() * scale
    if softcap is not None:
        score = (score / softcap).tanh() * softcap
    score = score + mask
    if sinks is not None:
        score = torch.cat([score, sinks.float()[None, ..., None].expand(len(score), -1, -1, -1)], dim=-1)
    return score.softmax(dim=-1)[..., : keys.shape[2]].to(values.dtype) @ values


def check_supported(attention_mask: torch.Tensor | None, features: Mapping[str, object]) -> None:
    """Raise `UnsupportedAttentionError` if a model passes its attention a tensor that ours would ignore."""
    if attention_mask is not None:
        raise UnsupportedAttentionError("its attention takes a mask, which ours does not")
    for name, feature in features.items():
        if isinstance(feature, torch.Tensor) and name not in _IGNORED:
            raise UnsupportedAttentionError(f"its attention takes {name}, which ours does not")


class MaskStore:
    """The additive masks of one forward, built once per window size and part and shared by all layers."""

    def __init__(self) -> None:
        self._masks: dict[tuple[int, int, int | None], torch.Tensor] = {}

    def get(self, layout: Layout, group: int, window: int | None, dtype: torch.dtype) -> torch.Tensor:
        """Return [R, 1, M, L], with M = g * T rounded up: 0 for keys that a query attends to, -inf for others."""
        key = layout.shelf, layout.first_slot, window
        if key not in self._masks:
            self._masks[key] = self._build(layout, group, window, dtype)
        return self._masks[key]

    @staticmethod
    def _build(layout: Layout, group: int, window: int | None, dtype: torch.dtype) -> torch.Tensor:
        position = layout.position[layout.gather]  # [R, T]
        slot = torch.arange(layout.attended, device=position.device)
        visible = slot <= position[..., None]  # [R, T, L]
        if window is not None:
            visible &= slot > position[..., None] - window
        mask = torch.zeros(visible.shape, dtype=dtype, device=position.device)
        mask.masked_fill_(~visible, float("-inf"))
        R, T, L = mask.shape
        queries = mask[:, None, None].expand(R, 1, group, T, L).reshape(R, 1, group * T, L)
        return F.pad(queries, (0, 0, 0, -(group * T) % _QUERY_MULTIPLE))


AttentionInterface.register(ATTENTION_NAME, ragged_cache_attention)
