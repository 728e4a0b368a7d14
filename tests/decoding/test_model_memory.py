"""How much memory a model takes and a device has, and what a failed allocation looks like."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
from torch import nn

from decoding.models import device, memory
from decoding.models.loaded import ModelSpec
from decoding.models.packing import prepack
from tests.decoding.conftest import SaveModel, tiny_qwen2


@pytest.fixture
def folder(save_model: SaveModel) -> str:
    return save_model(tiny_qwen2())


def tied() -> nn.ModuleDict:
    net = nn.ModuleDict(
        {"embedding": nn.Embedding(100, 8), "inner": nn.Linear(8, 16), "head": nn.Linear(8, 100, False)}
    )
    net["head"].weight = net["embedding"].weight
    net["inner"].register_buffer("frequencies", torch.zeros(4))
    return net.requires_grad_(False)


def test_shared_weights_count_once_and_prepacked_ones_too() -> None:
    net = tied()
    shared, inner = 4 * 100 * 8, 4 * (8 * 16 + 16 + 4)
    assert memory.count_weight_bytes(net) == shared + inner
    prepack(net)
    # The head now has a copy in another order. The buffer went with the layer.
    assert memory.count_weight_bytes(net) == 2 * shared + 4 * (8 * 16 + 16)


def test_the_expected_size_is_that_of_the_parameters_in_their_format(folder: str) -> None:
    assert memory.estimate_bytes(ModelSpec(folder, "float32", "cpu")) is None
    memory.fetch.ensure(folder)
    n = tiny_qwen2().num_parameters()
    assert memory.estimate_bytes(ModelSpec(folder, "float32", "cpu")) == 4 * n
    assert memory.estimate_bytes(ModelSpec(folder, "bfloat16", "cpu")) == 2 * n


@pytest.mark.parametrize(("limit", "holds"), [("1000000\n", True), ("max\n", False), (f"{1 << 62}\n", False)])
def test_what_is_available_ends_at_the_container_s_limit(
    limit: str, holds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_CGROUP_LIMITS", (tmp_path / "memory.max", tmp_path / "nothing"))
    (tmp_path / "memory.max").write_text(limit)
    found = device.measure_available_bytes("cpu")
    assert (found == 1_000_000) is holds
    assert 0 < found <= psutil.virtual_memory().total + psutil.Process().memory_info().rss


@pytest.mark.parametrize("allocate", [lambda: torch.empty(1 << 60, dtype=torch.uint8), lambda: bytearray(1 << 62)])
def test_an_allocation_that_fails_is_known_as_such(allocate: Callable[[], object]) -> None:
    with pytest.raises((RuntimeError, MemoryError)) as raised:
        allocate()
    assert device.is_out_of_memory(raised.value)
    assert device.is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert not device.is_out_of_memory(RuntimeError("shapes cannot be multiplied"))


def test_releasing_frees_what_only_refers_to_itself() -> None:
    net = tied()
    net.itself = [net]
    gone = weakref.ref(net)
    del net
    device.release_unused()
    assert gone() is None


def test_what_graphs_hold_in_their_own_pools_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    def segment(pool: tuple[int, int], total: int, allocated: int, device: int = 0) -> dict[str, object]:
        return {"device": device, "segment_pool_id": pool, "total_size": total, "allocated_size": allocated}

    segments = [segment((0, 0), 50, 20), segment((0, 7), 1000, 10), segment((0, 0), 9, 0, device=1)]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (400, 900))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: segments)
    assert device.count_free_bytes(torch.device("cuda")) == 430
