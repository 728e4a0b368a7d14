"""PyTorch's CPU build brings no Triton: decoding must work there with nothing of it installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent / "test_engine.py"
RUN = """
import importlib, pkgutil, sys
sys.modules["triton"] = None
import decoding, kernels
for package in (decoding, kernels):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
import pytest
sys.exit(pytest.main([sys.argv[1], "-q", "-p", "no:cacheprovider", "-k", "greedy or wrong"]))
"""


@pytest.mark.thorough
def test_every_module_imports_and_the_engine_decodes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(TESTS)], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
