"""The attention of packed tokens over the pages of their rows: one function for every backend, model and drafter.

`RaggedCache.begin` prepares a forward, and in CUDA graphs `build_uniform_layout` does: both give a `Layout`. A layer's
`update` writes keys and values to their pages, and `attend` reads them. Transformers' models call it under the names in
`NAMES`.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface

from decoding.attention.ragged import MaskStore, attend_by_pytorch, check_supported
from decoding.memory.layout import Layout
from kernels.registry import BACKENDS, AttentionBackend

NAMES = {name: f"bassline_{name}" if backend.function else "bassline" for name, backend in BACKENDS.items()}
"""The name of each backend in transformers; without `sdpa`, which transformers refuses for some models."""
OWN = AttentionBackend("own, row by row")
"""The attention of a model that does not let it be exchanged (row_by_row.py)."""


def get_backend(model: Any) -> AttentionBackend:
    """Return the backend that a model runs with, `OWN` if it computes attention by itself."""
    implementation = model.config.get_text_config()._attn_implementation
    return next((BACKENDS[name] for name, registered in NAMES.items() if registered == implementation), OWN)


def attend(
    backend: AttentionBackend,
    query: torch.Tensor,  # [N, Hq, D], packed
    key: torch.Tensor,  # [P, Hkv, page_size, D], the pages of the cache
    value: torch.Tensor,  # [P, Hkv, page_size, Dv]
    layout: Layout,
    masks: MaskStore,
    scale: float,
    window: int | None = None,
    *,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,  # [Hq]
) -> torch.Tensor:
    """Return [N, Hq, Dv]: each token attends to its row's keys up to its position in `layout`.

    By the backend's kernel, or by PyTorch where it has none for such rows. `softcap` limits the scores (Gemma 2);
    `sinks` are the scores of one further key per head whose value is zero (gpt-oss).
    """
    if backend.supports(layout.rows):
        return backend.load()(query, key, value, layout.rows, scale, window, softcap=softcap, sinks=sinks)
    return attend_by_pytorch(query, key, value, layout, masks, scale, window, softcap=softcap, sinks=sinks)


def _register(backend: AttentionBackend) -> None:
    def attend_for_transformers(
        module: torch.nn.Module,  # noqa: ARG001 (transformers' calling convention)
        query: torch.Tensor,  # [1, Hq, N, D]
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        scaling: float | None = None,
        sliding_window: int | None = None,
        layout: Layout | None = None,
        masks: MaskStore | None = None,
        softcap: float | None = None,
        s_aux: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        """Return [1, N, Hq, Dv]; raises `UnsupportedAttentionError` for a model that needs more than that."""
        layout, masks = check_supported(attention_mask, kwargs, layout, masks, key)
        scale = query.shape[3] ** -0.5 if scaling is None else scaling
        packed = query[0].transpose(0, 1)
        found = attend(backend, packed, key, value, layout, masks, scale, sliding_window, softcap=softcap, sinks=s_aux)
        return found.unsqueeze(0).contiguous(), None

    AttentionInterface.register(NAMES[backend.name], attend_for_transformers)


for _backend in BACKENDS.values():
    _register(_backend)
