"""PyTorch's attention over pages: the backend `sdpa`, and what reads rows that a kernel does not support.

The queries of all heads that share a key-value head form one tile (GQA packing), so that keys and values are read once
and not repeated per head.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import functional as F

from decoding.memory.layout import Layout
from decoding.memory.pages import is_buffer

# Tensors that some models pass to their attention and that do not change its result.
_IGNORED = ("position_ids", "cache_position")
# PyTorch computes attention in blocks of 32, 64 or 256 queries, and sums in another order in a last block of fewer than
# four. Padding to a multiple of four avoids such a block, so that a token's result does not depend on their number.
_QUERY_MULTIPLE = 4


class UnsupportedAttentionError(RuntimeError):
    """The model's attention needs a feature that ours lacks."""


def attend_by_pytorch(
    query: torch.Tensor,  # [N, Hq, D], packed
    key: torch.Tensor,  # [P, Hkv, page_size, D]
    value: torch.Tensor,  # [P, Hkv, page_size, Dv]
    layout: Layout,
    masks: MaskStore,
    scale: float,
    window: int | None = None,
    *,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,  # [Hq]
) -> torch.Tensor:
    """Return [N, Hq, Dv]: each packed token attends to its row's keys up to its position in `layout`."""
    at, attended = 0, []
    for part in layout.parts:
        n = sum(part.counts)
        mask = masks.get(part, query.shape[1] // key.shape[1], window, query.dtype)
        attended.append(_attend_rows(query[at : at + n], key, value, part, mask, scale, softcap, sinks))
        at += n
    return attended[0] if len(attended) == 1 else torch.cat(attended)


def _attend_rows(
    tokens: torch.Tensor,  # [N, Hq, D], packed
    key: torch.Tensor,  # [P, Hkv, page_size, D]
    value: torch.Tensor,  # [P, Hkv, size, Dv]
    layout: Layout,
    mask: torch.Tensor,  # [R, 1, M, L]
    scale: float,
    softcap: float | None,
    s_aux: torch.Tensor | None,  # [Hq]
) -> torch.Tensor:
    """Return [N, Hq, Dv]: each packed token attends to the slots of its row that `mask` leaves."""
    R, Hkv, D, Dv = layout.n_rows, key.shape[1], key.shape[3], value.shape[3]
    Hq, T = tokens.shape[1], max(layout.counts)
    group = Hq // Hkv
    rows = tokens if layout.is_rectangular else tokens[layout.padded_index.flatten()]
    # [R, T, Hkv, g, D] -> [R, Hkv, g * T, D]
    tile = rows.reshape(R, T, Hkv, group, D).permute(0, 2, 3, 1, 4).reshape(R, Hkv, group * T, D)
    keys, values = layout.gather_pages(key), layout.gather_pages(value)
    sinks = None if s_aux is None else s_aux.view(Hkv, group).repeat_interleave(T, dim=1)
    if extra := mask.shape[2] - group * T:
        tile = F.pad(tile, (0, 0, 0, extra))
        sinks = None if sinks is None else F.pad(sinks, (0, extra))
    if softcap is None and sinks is None:
        out = F.scaled_dot_product_attention(tile, keys, values, attn_mask=mask, scale=scale)
    else:
        out = _attend(tile, keys, values, mask, scale, softcap, sinks)
    out = out[:, :, : group * T].reshape(R, Hkv, group, T, Dv).permute(0, 3, 1, 2, 4).reshape(R * T, Hq, Dv)
    if not layout.is_rectangular:
        out = out[layout.packed_index]
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


def check_supported(
    attention_mask: torch.Tensor | None,
    features: Mapping[str, object],
    layout: Layout | None,
    masks: MaskStore | None,
    key: torch.Tensor,
) -> tuple[Layout, MaskStore]:
    """Return the layout and the masks that a model passed on to its attention.

    Raises `UnsupportedAttentionError` if it did not, if it passes a tensor that ours would ignore, and if it has
    computed with the keys of the cache: it would do so with all pages.
    """
    if layout is None or masks is None:
        raise UnsupportedAttentionError("this model does not pass keyword arguments to its attention")
    if not (layout.is_dense or is_buffer(key)):
        raise UnsupportedAttentionError("it computes with all keys before its attention")
    if attention_mask is not None:
        raise UnsupportedAttentionError("its attention takes a mask, which ours does not")
    for name, feature in features.items():
        if isinstance(feature, torch.Tensor) and name not in _IGNORED:
            raise UnsupportedAttentionError(f"its attention takes {name}, which ours does not")
    return layout, masks


class MaskStore:
    """The additive masks of one forward, built once per window size, group and part, and shared by all layers."""

    def __init__(self) -> None:
        self._masks: dict[tuple[int, int, int | None], torch.Tensor] = {}

    def get(self, layout: Layout, group: int, window: int | None, dtype: torch.dtype) -> torch.Tensor:
        """Return [R, 1, M, L], with M = g * T rounded up: 0 for keys that a query attends to, -inf for others."""
        key = id(layout), group, window  # the layout is of a forward, which keeps it
        if key not in self._masks:
            self._masks[key] = self._build(layout, group, window, dtype)
        return self._masks[key]

    @staticmethod
    def _build(layout: Layout, group: int, window: int | None, dtype: torch.dtype) -> torch.Tensor:
        position = layout.position[layout.padded_index]  # [R, T]
        slot = torch.arange(layout.attended, device=position.device)
        visible = slot <= position[..., None]  # [R, T, L]
        if window is not None:
            visible &= slot > position[..., None] - window
        mask = torch.zeros(visible.shape, dtype=dtype, device=position.device)
        mask.masked_fill_(~visible, float("-inf"))
        R, T, L = mask.shape
        queries = mask[:, None, None].expand(R, 1, group, T, L).reshape(R, 1, group * T, L)
        return F.pad(queries, (0, 0, 0, -(group * T) % _QUERY_MULTIPLE))
