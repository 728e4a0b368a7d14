"""Attention over the ragged cache, registered with transformers under the name `ragged_cache`.

Registered without a mask function on purpose: transformers then builds no mask and never asks the cache for one
common length, and causality and raggedness are ours alone. The queries of all heads that share a key-value head are
packed into one tile (GQA packing), so keys and values are read once and never repeated.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import functional as F
from transformers import AttentionInterface

from decoding.layout import Layout

ATTENTION_NAME = "ragged_cache"
# Features that change the result and that this attention does not have: better refused than ignored.
_UNSUPPORTED = ("softcap", "s_aux", "sinks")

# PyTorch multiplies fewer queries than this in another order: these are repeated, so that a token's result does not
# depend on how many there are.
_FEWEST_QUERIES = 4


class UnsupportedAttentionError(RuntimeError):
    """The model's attention wants a feature that ours lacks."""


def ragged_cache_attention(
    module: torch.nn.Module,  # noqa: ARG001 (transformers' calling convention, as attention_mask)
    query: torch.Tensor,  # [1, Hq, N, D], packed
    key: torch.Tensor,  # [R, Hkv, S, D], the cache's buffers
    value: torch.Tensor,  # [R, Hkv, S, D]
    attention_mask: torch.Tensor | None,  # noqa: ARG001
    scaling: float | None = None,
    sliding_window: int | None = None,
    layout: Layout | None = None,
    masks: MaskStore | None = None,
    **kwargs: object,
) -> tuple[torch.Tensor, None]:
    """Return [1, N, Hq, D]: each packed token attends to its own row's slots up to its own position."""
    if layout is None or masks is None:
        raise UnsupportedAttentionError("this model does not hand keyword arguments on to its attention")
    check_supported(kwargs)
    R, Hkv, _, D = key.shape
    Hq, T, L = query.shape[1], layout.gather.shape[1], layout.attended
    group = Hq // Hkv
    tokens = query[0].transpose(0, 1)  # [N, Hq, D]
    rows = tokens if layout.is_rectangular else tokens[layout.gather.flatten()]
    # [R, T, Hkv, g, D] -> [R, Hkv, g * T, D]
    tile = rows.reshape(R, T, Hkv, group, D).permute(0, 2, 3, 1, 4).reshape(R, Hkv, group * T, D)
    mask = masks.get(layout, group, sliding_window, tile.dtype)
    if group * T < _FEWEST_QUERIES:
        times = -(-_FEWEST_QUERIES // (group * T))
        tile, mask = tile.repeat(1, 1, times, 1), mask.repeat(1, 1, times, 1)
    out = F.scaled_dot_product_attention(tile, key[:, :, :L], value[:, :, :L], attn_mask=mask, scale=scaling)
    out = out[:, :, : group * T]
    out = out.reshape(R, Hkv, group, T, D).permute(0, 3, 1, 2, 4).reshape(R * T, Hq, D)
    if not layout.is_rectangular:
        out = out[layout.scatter]
    return out.unsqueeze(0), None


def check_supported(features: Mapping[str, object]) -> None:
    """Raise `UnsupportedAttentionError` if a model asks for a feature that ours lacks."""
    for name in _UNSUPPORTED:
        if features.get(name) is not None:
            raise UnsupportedAttentionError(f"attention with {name} is not supported")


class MaskStore:
    """The additive mask of one forward, built once per window size and shared by all layers."""

    def __init__(self) -> None:
        self._masks: dict[int | None, torch.Tensor] = {}

    def get(self, layout: Layout, group: int, window: int | None, dtype: torch.dtype) -> torch.Tensor:
        """Return [R, 1, g * T, L]: 0 where a query may look, -inf elsewhere."""
        if window not in self._masks:
            self._masks[window] = self._build(layout, group, window, dtype)
        return self._masks[window]

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
        return mask[:, None, None].expand(R, 1, group, T, L).reshape(R, 1, group * T, L)


AttentionInterface.register(ATTENTION_NAME, ragged_cache_attention)
