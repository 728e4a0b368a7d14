"""Weights lie in huge pages where the system has them, and are the same weights."""

import ctypes
import mmap
import platform
import re
from pathlib import Path

import pytest
import torch
from torch import nn

from decoding.models.huge_pages import HUGE_PAGE, _find_filled_pages, use_huge_pages
from decoding.models.packing import prepack

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def can_move_at_once() -> bool:
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    is_new = release is not None and (int(release[1]), int(release[2])) >= (6, 1)
    return is_new and SETTING.exists() and "[never]" not in SETTING.read_text()


def huge_bytes(start: int) -> int:
    """The bytes in huge pages of the mapping of the first whole huge page from an address on."""
    address = -(-start // HUGE_PAGE) * HUGE_PAGE
    for mapping in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
        found = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", mapping)
        if found and int(found[1], 16) <= address < int(found[2], 16):
            return 1024 * int(re.findall(r"AnonHugePages:\s+(\d+)", mapping)[0])
    return 0


pytestmark = pytest.mark.skipif(
    not can_move_at_once(), reason="this system does not move memory into huge pages at once"
)


def test_prepacked_weights_are_moved_into_huge_pages_and_compute_the_same() -> None:
    model = nn.Sequential(nn.Linear(4096, 1536, bias=False))  # 24 MiB
    prepack(model)
    x = torch.randn(5, 4096)
    with torch.inference_mode():
        before = model(x)
        use_huge_pages()
        assert torch.equal(model(x), before)
    (weight,) = (tensor for tensor in vars(model[0]).values() if isinstance(tensor, torch.Tensor))
    assert huge_bytes(torch.ops.mkldnn.data_ptr(weight)) >= 24 * 2**20 - 2 * HUGE_PAGE


def test_memory_of_other_libraries_is_moved_where_it_is_filled() -> None:
    memory = mmap.mmap(-1, 16 * HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(b"x" * (8 * HUGE_PAGE))
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    use_huge_pages()
    assert huge_bytes(start) >= 7 * HUGE_PAGE
    assert memory[8 * HUGE_PAGE - 1 : 8 * HUGE_PAGE] == b"x"
    assert all(page < start + 9 * HUGE_PAGE for page in _find_filled_pages() if start <= page < start + 16 * HUGE_PAGE)
