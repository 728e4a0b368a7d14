"""Kernels are tested on a GPU where there is one, else in Triton's interpreter."""

import pytest
import torch

from kernels import availability


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
    if availability.triton is None:
        pytest.skip("Triton is not installed")
