"""Load tests with figures made up for these tests."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from app.capacity import service
from app.capacity.schemas import LoadTestSpec
from tests.load_tests import load_test


@pytest.fixture
def body() -> dict[str, Any]:
    """A body of POST /api/v1/capacity."""
    return load_test()


@pytest.fixture
def add(world) -> Callable[..., uuid.UUID]:
    """Stores a load test in the service under test; its id."""
    return lambda **changes: service.store(world.context, LoadTestSpec.model_validate(load_test(**changes)))
