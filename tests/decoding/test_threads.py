"""How idle OpenMP threads wait, and how many of them PyTorch uses where another pool computes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch

from decoding.models.threads import count_threads, use_all_threads, use_one_thread

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


@pytest.mark.usefixtures("two_threads")
def test_one_thread_is_a_context_that_nests_and_ends_with_an_error() -> None:
    def seen() -> tuple[int, int]:
        return torch.get_num_threads(), count_threads()

    assert seen() == (2, 2)
    with use_one_thread():
        assert seen() == (1, 2)
        with use_one_thread():
            assert seen() == (1, 2)
        assert seen() == (1, 2)
        with use_all_threads():
            assert seen() == (2, 2)
            with use_one_thread():
                assert seen() == (1, 2)
            assert seen() == (2, 2)
        assert seen() == (1, 2)
    assert seen() == (2, 2)
    with pytest.raises(ZeroDivisionError), use_one_thread(), use_all_threads():
        _ = 1 / 0
    assert seen() == (2, 2)
    with use_all_threads():
        assert seen() == (2, 2)


@pytest.mark.usefixtures("two_threads")
def test_a_thread_that_starts_meanwhile_has_all_its_threads() -> None:
    """PyTorch's own function would leave it with one for good."""
    found: list[int] = []
    with use_one_thread():
        other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        other.start()
        other.join()
    assert found == [2]
