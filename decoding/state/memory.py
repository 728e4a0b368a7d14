"""Memory in use by a decoding process."""

from __future__ import annotations

import resource
import sys

import torch


def measure_peak_memory(device: torch.device) -> int:
    """Return the most memory used so far: allocated on the device on CUDA, resident in the process on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
