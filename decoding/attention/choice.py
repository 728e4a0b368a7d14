"""Which attention backend a device uses. Imports no transformers, so that `bassline doctor` starts quickly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decoding.models.errors import ModelError
from kernels.availability import KernelError, require_triton
from kernels.native_attention import require_native
from kernels.registry import BACKENDS

if TYPE_CHECKING:
    import torch


def pick_attention(attention: str, device: torch.device) -> str:
    """Return the backend to use; `auto` is `ragged` on a GPU, `native` on a CPU, and `sdpa` where these do not run.

    Raises `ModelError` for a backend that does not run on `device`.
    """
    if attention == "auto":
        best = "ragged" if device.type == "cuda" else "native"
        return best if find_obstacle(best, device) is None else "sdpa"
    if why := find_obstacle(attention, device):
        raise ModelError(f"attention {attention!r} does not run here. {why}")
    return attention


def find_obstacle(attention: str, device: torch.device) -> str | None:
    """Return why a backend does not run on `device`, None if it does."""
    try:
        if BACKENDS[attention].needs_triton:
            require_triton(device)
        if BACKENDS[attention].needs_compiler:
            require_native(device)
    except KernelError as error:
        return str(error)
    return None
