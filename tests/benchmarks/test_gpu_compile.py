"""Kernels compile for GPUs that are not here, within bounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_compile
from benchmarks.gpu_compile import LAUNCHES, Compiled
from kernels.availability import INTERPRETED

triton = pytest.importorskip("triton")

QUICK = ("attend, 5 tokens", "attend, 16 tokens", "accept, maximal, model")
# Bytes that a launch may spill, and programs of a kernel that must fit a multiprocessor: on H100 and B200, on an A100.
SPILLED = {"attend, 5 tokens": 8, "attend, 5 tokens, float32": 1024, "accept, maximal, model": 16}
PROGRAMS = {"attend": (2, 1), "merge": (6, 6), "scatter": (16, 16), "accept": (8, 8)}
LARGEST_SHARED = 128 * 1024  # a program on an A100 may have 163 KiB


def compiled(tmp_path: Path, names: tuple[str, ...], architectures: str) -> list[Compiled]:
    """Compiles in a process of its own, because this one has Triton's interpreter."""
    file = tmp_path / "compiled.json"
    command = [sys.executable, "-m", "benchmarks.gpu_compile", "--architectures", architectures, "--json", str(file)]
    command += [part for name in names for part in ("--only", name)]
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    own["TRITON_CACHE_DIR"] = str(tmp_path / "cache")
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=own)
    if "has neither ptxas nor cuobjdump" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return [Compiled(**row) for row in json.loads(file.read_text())["rows"]]


def check_bounds(found: list[Compiled]) -> None:
    for one in found:
        elsewhere, on_a100 = PROGRAMS[one.kernel]
        assert one.spilled <= SPILLED.get(one.launch, 0), one
        assert one.programs >= (on_a100 if one.architecture == 80 else elsewhere), one
        assert one.shared <= LARGEST_SHARED, one


def test_representative_kernels_compile_for_an_h100_within_their_bounds(tmp_path: Path) -> None:
    found = compiled(tmp_path, QUICK, "90")
    check_bounds(found)
    assert {one.launch: one.product for one in found if one.kernel == "attend"} == {
        "attend, 5 tokens": "mma.sync",
        "attend, 16 tokens": "wgmma",
    }


@pytest.mark.thorough
def test_every_kernel_compiles_for_every_architecture_within_its_bounds(tmp_path: Path) -> None:
    found = compiled(tmp_path, tuple(LAUNCHES), "80,90,100")
    check_bounds(found)
    assert {one.kernel for one in found} == set(PROGRAMS)


@pytest.mark.skipif(not INTERPRETED, reason="kernels are compiled where there is a GPU")
def test_the_interpreter_is_not_taken_for_the_compiler(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_compile.main(["--only", "kv_scatter"]) == 1
    assert capsys.readouterr().err == "TRITON_INTERPRET is set, and the interpreter compiles nothing: unset it\n"


def one(**values: Any) -> Compiled:
    return Compiled(**{"launch": "x", "kernel": "x", "architecture": 90, "registers": 32, "spilled": 0, "shared": 0,
                       "product": "-"} | values)  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "programs"),
    [
        (one(registers=32), 16),  # 2048 threads
        (one(registers=168), 2 + 1),  # 65536 registers over 4 warps of 5376
        (one(registers=255), 2),
        (one(shared=100 * 1024), 2),  # 228 KiB
        (one(shared=100 * 1024, architecture=80), 1),  # 164 KiB
    ],
)
def test_how_many_programs_fit_follows_from_registers_threads_and_shared_memory(
    kernel: Compiled, programs: int
) -> None:
    assert kernel.programs == programs
