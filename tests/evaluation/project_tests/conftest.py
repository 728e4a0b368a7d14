"""A project whose functions and methods are judged by its own tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import pytest

from evaluation.sandbox import Sandbox
from tests.evaluation.project_tests.projects import Pack, Packed

SHOP = {
    "shop.py": '''
import math

RATE = 0.19


class Basket:
    """Goods with prices."""

    def __init__(self, prices):
        self.prices = list(prices)

    def total(self, shipping=0.0):
        """The sum of all prices with tax, and shipping."""
        net = sum(self.prices)
        return round(gross(net) + shipping, 2)

    @property
    def dearest(self):
        """The highest price."""
        return max(self.prices)


def gross(net):
    """A price with tax."""
    if net < 0:
        raise ValueError("negative")
    return net * (1 + RATE)
''',
    "tests/conftest.py": """
import pytest
from shop import Basket


@pytest.fixture
def basket():
    return Basket([1.0, 2.0])
""",
    "tests/test_shop.py": """
import unittest
import pytest
import shop


def test_total(basket):
    assert basket.total() == 3.57


@pytest.mark.parametrize("shipping, expected", [(1, 4.57), (2.5, 6.07)])
def test_shipping(basket, shipping, expected):
    assert basket.total(shipping) == expected


def test_dearest(basket):
    assert basket.dearest == 2.0


class GrossTests(unittest.TestCase):
    def test_gross(self):
        self.assertAlmostEqual(shop.gross(100), 119)

    def test_negative(self):
        with self.assertRaises(ValueError):
            shop.gross(-1)
""",
}
TOTAL = ("tests/test_shop.py::test_total", "tests/test_shop.py::test_shipping[1-4.57]",
         "tests/test_shop.py::test_shipping[2.5-6.07]")  # fmt: skip
GROSS = ("tests/test_shop.py::GrossTests::test_gross", "tests/test_shop.py::GrossTests::test_negative")


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    return Sandbox.detect()


@pytest.fixture
def pack(sandbox: Sandbox) -> Iterator[Pack]:
    """Makes a project of files and of the names of packages, which is closed after the test."""
    with contextlib.ExitStack() as stack:

        def build(files: Mapping[str, str], *packages: str, other: Sandbox | None = None) -> Packed:
            packed = Packed(files, other or sandbox, *packages)
            stack.callback(packed.judge.close)
            return packed

        yield build


@pytest.fixture(scope="session")
def shop(sandbox: Sandbox) -> Iterator[Packed]:
    packed = Packed(SHOP, sandbox)
    yield packed
    packed.judge.close()
