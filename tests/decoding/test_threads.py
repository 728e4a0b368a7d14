"""How idle OpenMP threads wait: briefly spinning unless the user says otherwise, and set before torch is imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, decoding
assert "torch" not in sys.modules
print(os.environ.get("OMP_WAIT_POLICY"), os.environ.get("GOMP_SPINCOUNT"))
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "PASSIVE 20000"),
        ({"GOMP_SPINCOUNT": "7"}, "PASSIVE 7"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE None"),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, "PASSIVE None"),
    ],
)
def test_threads_spin_briefly_unless_the_user_chose_a_policy(given: dict[str, str], expected: str) -> None:
    ours = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in ours} | given
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, text=True, capture_output=True, check=True)
    assert done.stdout.strip() == expected
