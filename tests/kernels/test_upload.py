"""Values of the host reach a GPU from pinned memory, everywhere in a round."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from kernels.upload import stage, upload

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")


def test_values_arrive_as_they_are_and_a_tensor_in_place_is_not_copied(device: torch.device) -> None:
    assert upload([[1, -1]], device).tolist() == [[1, -1]]
    numbers = torch.tensor([1, 2], dtype=torch.int32)
    arrived = upload(numbers, device)
    assert (arrived.dtype, arrived.tolist(), arrived.device.type) == (torch.int32, [1, 2], device.type)
    assert upload(arrived, device) is arrived
    assert stage(numbers, CPU) is numbers


def test_what_goes_to_a_gpu_is_pinned_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = torch.tensor([3])
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: pinned)
    assert stage([1, 2], torch.device("cuda")) is pinned
    assert stage([1, 2], CPU).tolist() == [1, 2]


def test_rounds_have_no_other_uploads() -> None:
    """PyTorch makes the host wait for `torch.tensor(values, device=...)` on a GPU."""
    files = [
        path
        for name in ("acceptance", "attention", "drafters", "memory")
        for path in (ROOT / "decoding" / name).glob("*.py")
    ]
    blocking = re.compile(r"(torch\.tensor|as_tensor|from_numpy)\(.*(device=|\)\.(to|cuda)\()")
    found = [
        f"{path.name}: {line.strip()}"
        for path in [*files, ROOT / "kernels" / "rows.py"]
        for line in path.read_text().splitlines()
        if blocking.search(line)
    ]
    assert len(files) > 30
    assert found == []
