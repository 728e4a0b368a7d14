"""Puts weights into huge pages, from which a CPU reads them faster.

A decoding step on a CPU reads all weights once. In pages of 4 KiB its cores wait for page tables in between, and most
Linux systems give larger ones only to programs that ask for them (`madvise` in `transparent_hugepage/enabled`). In
pages of 2 MiB a step took 13 to 16 percent less time (docs/decoding-speed.md).
"""

from __future__ import annotations

import ctypes
import sys

from torch import nn

from decoding.models.packing import Packed

HUGE_PAGE = 2 << 20
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25  # of Linux; the second since 6.1
# A page for a smaller tensor would be mostly empty.
_LEAST = HUGE_PAGE // 2


def use_huge_pages(model: nn.Module) -> None:
    """Move the prepacked weights of a model on a CPU into huge pages; two seconds for a gigabyte.

    Before Linux 6.1 the system does so later, in the background. Does nothing on other systems.
    """
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for page in _pages(model):
        # One that cannot be moved stays as it is.
        madvise(page, HUGE_PAGE, _MADV_HUGEPAGE)
        madvise(page, HUGE_PAGE, _MADV_COLLAPSE)


def _pages(model: nn.Module) -> list[int]:
    """Return the addresses of the huge pages that a model's prepacked weights lie in."""
    packed = [module for module in model.modules() if isinstance(module, Packed)]
    blocks = [block for module in packed for block in module.blocks]
    return sorted(
        {
            page
            for address, size in blocks
            if size >= _LEAST
            for page in range(address // HUGE_PAGE * HUGE_PAGE, address + size, HUGE_PAGE)
        }
    )
