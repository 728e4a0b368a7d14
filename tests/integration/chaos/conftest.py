"""One stack for the tests of a file, since an idle one still sweeps and polls; every test finds it whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.chaos.stack import Stack


@pytest.fixture(scope="module")
def whole_stack(tmp_path_factory) -> Iterator[Stack]:
    found = Stack(tmp_path_factory.mktemp("chaos"))
    yield found
    found.remove()


@pytest.fixture
def stack(whole_stack: Stack) -> Stack:
    whole_stack.ensure()
    return whole_stack
