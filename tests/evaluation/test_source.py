"""Reading source is safe wherever it is done."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from evaluation import dataset_files
from evaluation.source import find_definition, list_bound_names, parse


class Cycle:
    """Garbage whose end runs Python, and so lets another thread in at any moment."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        sum(range(50))


@pytest.fixture
def _restless():
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50, 2, 2)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("_restless")
def test_threads_that_read_at_once_all_get_their_tree() -> None:
    """Python 3.11 alone fails 4 % of these (python/cpython issue 106905)."""
    source = max((task.test for task in dataset_files.load_bundled_dataset("humaneval").tasks), key=len)

    def read(_: int) -> bool:
        Cycle()
        return parse(source) is not None

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, range(300)))


def test_the_definition_in_finally_is_the_last_one() -> None:
    tree = parse("try:\n    1\nexcept E:\n    def f(): 2\nelse:\n    def f(): 3\nfinally:\n    def f(): 4\n")
    assert tree is not None
    found = find_definition(tree.body[0], "f")
    assert found is not None
    assert found.lineno == 8


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("a[i] = x", set()),
        ("a.b = c.d = x", set()),
        ("a, (b, *c[0]) = d = x", {"a", "b", "d"}),
        ("if '__main__' == __name__:\n    a = 1", set()),
        ("if a and __name__ != 'm':\n    a = 1", set()),
        ("if a:\n    b[0] = 1\n    c = 2", {"c"}),
    ],
)
def test_what_is_filled_or_runs_in_scripts_alone_is_not_bound(statement: str, names: set[str]) -> None:
    tree = parse(statement)
    assert tree is not None
    assert list_bound_names(tree.body[0]) == names
