"""The attention backends of `kernels/registry.py`, registered with transformers.

A Triton backend is used for verifying, where a row has at most a draft and one more token. Beside it prompts are
prefilled by PyTorch's scaled dot product attention (ragged.py): it is the faster kernel for many queries of one row.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface

from decoding.attention.ragged import (
    ATTENTION_NAME,
    MaskStore,
    UnsupportedAttentionError,
    check_supported,
    ragged_cache_attention,
)
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.memory.layout import Layout
from kernels.registry import BACKENDS, AttentionBackend, VerifyAttention
from kernels.rows import RaggedRows

NAMES = {name: f"{ATTENTION_NAME}_{name}" if backend.function else ATTENTION_NAME for name, backend in BACKENDS.items()}
"""The name under which each backend is registered with transformers."""
OWN = AttentionBackend("own, row by row")
"""The attention of a model that does not let it be exchanged (row_by_row.py)."""


def backend_of(model: Any) -> AttentionBackend:
    """Return the backend that a model runs with, `OWN` if it computes attention by itself."""
    implementation = model.config.get_text_config()._attn_implementation
    return next((BACKENDS[name] for name, registered in NAMES.items() if registered == implementation), OWN)


def _register(name: str, verify: VerifyAttention, *, takes_any_rows: bool) -> None:
    def attend(
        module: torch.nn.Module,
        query: torch.Tensor,  # [1, Hq, N, D], packed
        key: torch.Tensor,  # [P, Hkv, page_size, D], the pages of the cache
        value: torch.Tensor,  # [P, Hkv, page_size, D]
        attention_mask: torch.Tensor | None,
        scaling: float | None = None,
        sliding_window: int | None = None,
        layout: Layout | None = None,
        masks: MaskStore | None = None,
        rows: RaggedRows | None = None,
        softcap: float | None = None,
        s_aux: torch.Tensor | None = None,  # [Hq]
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        """Return [1, N, Hq, D]: each packed token attends to its own row's slots up to its own position."""
        if rows is None or (not takes_any_rows and rows.max_count > MAX_DRAFT_LENGTH + 1):
            return ragged_cache_attention(
                module,
                query,
                key,
                value,
                attention_mask,
                scaling,
                sliding_window,
                layout,
                masks,
                softcap=softcap,
                s_aux=s_aux,
                **kwargs,
            )
        assert layout is not None
        check_supported(attention_mask, kwargs, layout, key)
        scale = query.shape[3] ** -0.5 if scaling is None else scaling
        if value.shape[3] != key.shape[3] and not takes_any_rows:
            raise UnsupportedAttentionError("its keys and values differ in size")
        q = query[0].transpose(0, 1)
        found = verify(q, key, value, rows, scale, sliding_window, softcap=softcap, sinks=s_aux)
        return found.unsqueeze(0).contiguous(), None

    AttentionInterface.register(NAMES[name], attend)


for _backend in BACKENDS.values():
    if _backend.function:
        _register(_backend.name, _backend.load(), takes_any_rows=_backend.takes_any_rows)
