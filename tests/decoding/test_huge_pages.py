"""Weights lie in huge pages where the system has them, and are the same weights."""

import platform
import re
from pathlib import Path

import pytest
import torch
from torch import nn

from decoding.models.huge_pages import HUGE_PAGE, use_huge_pages
from decoding.models.packing import Packed, prepack

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def can_move_at_once() -> bool:
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    is_new = release is not None and (int(release[1]), int(release[2])) >= (6, 1)
    return is_new and SETTING.exists() and "[never]" not in SETTING.read_text()


def huge_bytes(address: int) -> int:
    """The bytes in huge pages of the mapping that an address lies in."""
    for mapping in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
        found = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", mapping)
        if found and int(found[1], 16) <= address < int(found[2], 16):
            return 1024 * int(re.findall(r"AnonHugePages:\s+(\d+)", mapping)[0])
    return 0


@pytest.mark.skipif(not can_move_at_once(), reason="this system does not move memory into huge pages at once")
def test_prepacked_weights_are_moved_into_huge_pages_and_compute_the_same() -> None:
    model = nn.Sequential(nn.Linear(4096, 3 * 1024, bias=False)).to(torch.bfloat16)  # 24 MiB
    prepack(model)
    x = torch.randn(5, 4096, dtype=torch.bfloat16)
    with torch.inference_mode():
        before = model(x)
        use_huge_pages(model)
        assert torch.equal(model(x), before)
    assert isinstance(model[0], Packed)
    ((address, size),) = model[0].blocks
    assert size == 4096 * 3 * 1024 * 2
    assert huge_bytes(address) >= size - 2 * HUGE_PAGE


def test_a_model_without_prepacked_weights_is_left_alone() -> None:
    model = nn.Linear(8, 8)
    use_huge_pages(model)
    assert model(torch.zeros(1, 8)).shape == (1, 8)
