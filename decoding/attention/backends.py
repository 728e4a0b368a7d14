"""The attentions that a model can be loaded with, by the names of `EngineConfig.attention`.

`sdpa` (attention.py) pads a batch's queries and lets PyTorch work: best on a CPU. `ragged`, `pad` and `split` are the
Triton kernels of kernels/verify_attention.py, `reference` their meaning in plain PyTorch, row by row. Prompts are
prefilled by `sdpa` whatever is chosen: for many queries of one row the library's kernel is the right one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import AttentionInterface

from decoding.attention.layout import Layout
from decoding.attention.ragged import (
    ATTENTION_NAME,
    MaskStore,
    UnsupportedAttentionError,
    check_supported,
    ragged_cache_attention,
)
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.models.errors import ModelError
from kernels import reference, verify_attention
from kernels.availability import KernelError, require
from kernels.rows import RaggedRows

_VARIANTS: dict[str, Callable[..., torch.Tensor]] = {
    "reference": reference.verify_attention,
    "pad": verify_attention.pad,
    "split": verify_attention.split,
    "ragged": verify_attention.ragged,
}
NAMES = {"sdpa": ATTENTION_NAME} | {variant: f"{ATTENTION_NAME}_{variant}" for variant in _VARIANTS}
"""What transformers calls each attention."""
OWN = "own, row by row"
"""The attention of a model that keeps its own (row_by_row.py)."""
_TRITON = ("pad", "split", "ragged")


def pick_attention(attention: str, device: torch.device) -> str:
    """Return the attention to use; `auto` is `ragged` on a GPU where Triton is installed, else `sdpa`.

    Raises `ModelError` for one that does not run on `device`.
    """
    if attention == "auto":
        return "ragged" if device.type == "cuda" and _runs_triton(device) else "sdpa"
    if attention in _TRITON:
        try:
            require(device)
        except KernelError as error:
            raise ModelError(f"attention {attention!r} does not run here. {error}") from error
    return attention


def chosen(model: Any) -> str:
    """Return the name of the attention that a model runs with."""
    implementation = model.config.get_text_config()._attn_implementation
    return next((name for name, known in NAMES.items() if known == implementation), OWN)


def rows_of(layout: Layout) -> RaggedRows:
    """Return what the kernels need to know of a forward's rows."""
    return RaggedRows.of(layout.lens, layout.counts, layout.position.device)


def _runs_triton(device: torch.device) -> bool:
    try:
        require(device)
    except KernelError:
        return False
    return True


def _register(variant: str, verify: Callable[..., torch.Tensor]) -> None:
    def attend(
        module: torch.nn.Module,
        query: torch.Tensor,  # [1, Hq, N, D], packed
        key: torch.Tensor,  # [R, Hkv, S, D], the cache's buffers
        value: torch.Tensor,  # [R, Hkv, S, D]
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
        if rows is None or rows.max_count > MAX_DRAFT_LENGTH + 1:
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
        check_supported(attention_mask, kwargs)
        if value.shape[3] != key.shape[3]:
            raise UnsupportedAttentionError("its keys and values differ in size")
        scale = query.shape[3] ** -0.5 if scaling is None else scaling
        tokens = query[0].transpose(0, 1)
        out = verify(tokens, key, value, rows, scale, sliding_window, softcap=softcap, sinks=s_aux)
        return out.unsqueeze(0).contiguous(), None

    AttentionInterface.register(NAMES[variant], attend)


for _variant, _verify in _VARIANTS.items():
    _register(_variant, _verify)
