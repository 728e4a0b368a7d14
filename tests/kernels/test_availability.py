"""Kernels can be imported anywhere; where they cannot run they say what to do."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kernels.availability import jit_unspecialized

pytest.importorskip("triton")

USE = """
import torch
from kernels import accept, kv_scatter, verify_attention
try:
    kv_scatter.write_kv(*torch.zeros(2, 1, 1, 4, 8), *torch.zeros(2, 1, 1, 8), *torch.zeros(1, dtype=torch.int64))
except Exception as error:
    print(type(error).__name__, error)
"""


def run(code: str, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False,
        env=inherited | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_triton_the_kernels_import_and_say_what_to_install() -> None:
    said = run("import sys; sys.modules['triton'] = None\n" + USE)
    assert said.startswith("KernelError Triton is not installed")


def test_on_a_cpu_the_kernels_name_the_two_ways_out() -> None:
    said = run(USE)
    assert said.startswith(
        "KernelError Triton kernels need a GPU: use attention sdpa on a CPU, or set TRITON_INTERPRET=1"
    )


def test_a_name_to_leave_unspecialized_must_be_a_parameter() -> None:
    with pytest.raises(AssertionError, match="blocks_ptr"):
        jit_unspecialized("n", "blocks_ptr")(lambda page_table_ptr, n: None)
