"""Which attention backend a device uses. Imports no transformers, so that `bassline doctor` starts quickly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decoding.models.errors import ModelError
from kernels.availability import KernelError, require
from kernels.registry import BACKENDS

if TYPE_CHECKING:
    import torch


def pick_attention(attention: str, device: torch.device) -> str:
    """Return the backend to use; `auto` is `ragged` on a GPU where Triton is installed, else `sdpa`.

    Raises `ModelError` for a backend that does not run on `device`.
    """
    if attention == "auto":
        return "ragged" if device.type == "cuda" and _runs_triton(device) else "sdpa"
    if BACKENDS[attention].needs_triton:
        try:
            require(device)
        except KernelError as error:
            raise ModelError(f"attention {attention!r} does not run here. {error}") from error
    return attention


def _runs_triton(device: torch.device) -> bool:
    try:
        require(device)
    except KernelError:
        return False
    return True
