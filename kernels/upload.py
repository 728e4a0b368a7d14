"""Values of the host on their way to a device, without waiting for the work that is queued there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def stage(values: torch.Tensor | Sequence[Any], device: torch.device) -> torch.Tensor:
    """Return `values` as a tensor that `copy_(..., non_blocking=True)` takes to `device` without waiting for it.

    A copy from pinned memory is queued behind earlier work; for other memory the host waits. A tensor that is
    on a GPU stays as it is.
    """
    tensor = values if isinstance(values, torch.Tensor) else torch.tensor(values)
    return tensor.pin_memory() if device.type == "cuda" and not tensor.is_cuda else tensor


def upload(values: torch.Tensor | Sequence[Any], device: torch.device) -> torch.Tensor:
    """Return `values` on `device`, where the host does not wait for the copy."""
    return stage(values, device).to(device, non_blocking=True)
