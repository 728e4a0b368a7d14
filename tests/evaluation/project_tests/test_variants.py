"""Variants of a function that share a process: what is said to fail does, and nothing else is said."""

from __future__ import annotations

import pytest

from evaluation.project_tests.running import LIMITS
from evaluation.sandbox import Sandbox
from tests.evaluation.project_tests.conftest import GROSS, SHOP, TOTAL
from tests.evaluation.project_tests.projects import Pack, Packed

TOTAL_HEAD = "class Basket:\n def total(self, shipping=0.0):\n"
COUNTER = {
    "counter.py": '''
import functools


@functools.lru_cache
def double(number):
    """Twice a number."""
    return number + number


class Base:
    def name(self):
        return "base"


class Counter(Base):
    def name(self):
        return super().name() + " counter"
''',
    "test_counter.py": """
from counter import Counter, double


def test_double():
    assert double(2) == 4


def test_name():
    assert Counter().name() == "base counter"

""",
}


@pytest.fixture(scope="module")
def counter(sandbox: Sandbox):
    packed = Packed(COUNTER, sandbox)
    yield packed
    packed.judge.close()


def killed(packed: Packed, file: str, qualified: str, tests: tuple[str, ...], *variants: str) -> set[int]:
    spec = packed.spec(file, qualified, *tests)
    found = packed.judge.find_killed_variants(packed.files[file], spec, tests, variants, LIMITS)
    assert found.original_passed
    assert found.tried == len(variants)
    return found.killed


def test_variants_that_fail_are_killed_and_one_that_is_right_is_not(shop: Packed) -> None:
    bodies = ("return 3.57", "return None", "raise SystemExit(0)", "while True: pass",
              "return round(gross(sum(self.prices)) + shipping, 2)", "self.prices.clear()")  # fmt: skip

    found = killed(shop, "shop.py", "Basket.total", TOTAL, *(f"{TOTAL_HEAD}  {body}\n" for body in bodies))

    assert found == {0, 1, 2, 3, 5}


def test_no_more_variants_are_tried_than_are_needed_to_have_enough_that_may_pass(shop: Packed) -> None:
    right = "return round(gross(sum(self.prices)) + shipping, 2)"
    bodies = ("return 1", right, "return 2", right, "return 3")
    spec = shop.spec("shop.py", "Basket.total", *TOTAL)
    variants = [f"{TOTAL_HEAD}  {body}\n" for body in bodies]

    for allowed, tried in ((0, 2), (1, 4), (2, 5)):
        found = shop.judge.find_killed_variants(SHOP["shop.py"], spec, TOTAL, variants, LIMITS, allowed)
        assert (found.tried, found.killed) == (tried, {0, 2, 4} & set(range(tried)))


def test_tests_of_unittest_are_run_again_and_again(shop: Packed) -> None:
    bodies = ("return net", "return net * (1 + RATE)", "raise ValueError", "return 119")

    found = killed(shop, "shop.py", "gross", GROSS, *(f"def gross(net):\n {body}\n" for body in bodies))

    assert found == {0, 1, 2, 3}  # the second one lets a negative number pass


def test_a_variant_that_ends_the_process_is_left_open_and_the_next_ones_are_judged(shop: Packed) -> None:
    bodies = ("import os; os._exit(0)", "return 1", "import os; os._exit(3)", "return 2")

    found = killed(shop, "shop.py", "Basket.total", TOTAL, *(f"{TOTAL_HEAD}  {body}\n" for body in bodies))

    assert found == {1, 3}


def test_a_variant_that_spoils_its_process_is_left_open_and_the_next_ones_are_judged(shop: Packed) -> None:
    spoiling = f"{TOTAL_HEAD}  globals()['gross'] = None\n  return 0\n"

    found = killed(shop, "shop.py", "Basket.total", TOTAL, spoiling, f"{TOTAL_HEAD}  return 1\n")

    assert found == {1}


def test_a_variant_that_a_cache_hides_is_not_said_to_fail(counter: Packed) -> None:
    tests = ("test_counter.py::test_double",)

    assert killed(counter, "counter.py", "double", tests, "def double(number):\n return 0\n") == set()


def test_methods_that_use_super_are_exchanged_by_those_that_do_not(counter: Packed) -> None:
    tests = ("test_counter.py::test_name",)
    head = "class Counter:\n def name(self):\n"

    assert killed(counter, "counter.py", "Counter.name", tests, f"{head}  pass\n", f"{head}  return 'a'\n") == {0, 1}


def test_examples_in_docstrings_keep_their_names(pack: Pack) -> None:
    packed = pack({"twice.py": 'def twice(x):\n    """\n    >>> twice(2)\n    4\n    """\n    return x + x\n'})
    spec = packed.spec("twice.py", "twice", "twice.py::twice.twice")
    spec = type(spec).from_json({**spec.to_json(), "options": ["--doctest-modules"]})
    variants = [f"def twice(x):\n return {text}\n" for text in ("0", "x", "2 * x", "None")]
    found = packed.judge.find_killed_variants(packed.files["twice.py"], spec, spec.tests, variants, LIMITS)

    assert found.original_passed
    assert found.killed == {0, 1, 3}


def test_nothing_is_said_where_the_original_fails(shop: Packed) -> None:
    source = SHOP["shop.py"].replace("RATE = 0.19", "RATE = 0.2")
    spec = shop.spec("shop.py", "Basket.total", *TOTAL)

    found = shop.judge.find_killed_variants(source, spec, TOTAL, [f"{TOTAL_HEAD}  return 1\n"], LIMITS)

    assert not found.original_passed
    assert found.killed == set()
