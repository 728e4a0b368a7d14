"""Kernels compile for GPUs that are not here, within bounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import compiling

pytest.importorskip("triton")

QUICK = ("attend, 5 tokens", "attend, 16 tokens", "accept, maximal, model", "bytes, 8 tokens", "bytes, 40 tokens")
# Bytes that a launch may spill, registers of a thread (16, 8 or 6 programs of 128 threads then fit a multiprocessor),
# and bytes of shared memory: two programs fit an H100 or B200, one an A100.
SPILLED = {
    "attend, 5 tokens": 8,
    "attend, 5 tokens, heads of 64": 8,
    "draw": 16,
    "attend, 5 tokens, float32": 1024,
    "accept, maximal, model": 16,
}
REGISTERS = {"attend": 255, "merge": 80, "scatter": 32, "accept": 64}
REGISTERS |= {"run": 255, "add_and_norm": 64, "rotate_and_write": 40, "silu_mul": 32, "read_part": 128, "decide": 255}
REGISTERS |= {"attend, 1 token": 168}  # three programs fit, as _PROGRAMS_OF_16_QUERIES says
REGISTERS |= {"byte_matmul": 160, "quantize_rows": 64}
SHARED = {80: 128 * 1024, 90: 113 * 1024, 100: 113 * 1024}


def compile_kernels(folder: Path, names: tuple[str, ...], architectures: str) -> list[dict[str, Any]]:
    """Compiles in a process of its own, because this one has Triton's interpreter; checks the bounds."""
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    own |= {"TRITON_CACHE_DIR": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, compiling.__file__, architectures, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=own)
    if compiling.NO_COMPILER in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    for one in found:
        assert one["spilled"] <= SPILLED.get(one["launch"], 0), one
        assert one["registers"] <= REGISTERS.get(one["launch"], REGISTERS[one["kernel"]]), one
        assert one["shared"] <= SHARED[one["architecture"]], one
    return found


def test_representative_kernels_compile_for_an_h100_within_their_bounds(tmp_path: Path) -> None:
    found = compile_kernels(tmp_path, QUICK, "90")
    assert {one["launch"]: one["product"] for one in found if one["kernel"] == "attend"} == {
        "attend, 5 tokens": "mma.sync",
        "attend, 16 tokens": "wgmma",
    }
    assert {one["product"] for one in found if one["kernel"] == "byte_matmul"} == {"mma.sync"}, "sums in one order"


@pytest.mark.thorough
def test_every_kernel_compiles_for_every_architecture_within_its_bounds(tmp_path: Path) -> None:
    found = compile_kernels(tmp_path, tuple(compiling.LAUNCHES), "80,90,100")
    assert {one["kernel"] for one in found} == set(REGISTERS) - set(compiling.LAUNCHES)
