"""Which examples of a docstring become calls, and when they say what the function did."""

from __future__ import annotations

from evaluation.from_code.recording import values
from evaluation.from_code.source.examples import DocstringExample, list_docstring_examples
from evaluation.from_code.source.find import find_functions

SOURCE = '''
def double(x, times=2):
    """Doubles.

    >>> double(2)
    4
    >>> m.double("ab", times=3)
    'ababab'
    >>> double(y)
    4
    >>> print(double(2))
    4
    >>> double(None)
    Traceback (most recent call last):
    TypeError: no
    """
    return x * times
'''


def test_calls_with_literals_are_taken(opened):
    (function,) = find_functions(opened(m=SOURCE))
    calls = [values.read(each.call) for each in list_docstring_examples(function)]
    assert calls == [((2,), {}), (("ab",), {"times": 3}), ((None,), {})]


def test_an_example_agrees_with_what_it_prints():
    assert DocstringExample("", "[1, ...]\n").agrees(values.serialize([1, 2]), ())
    assert DocstringExample("", "").agrees(values.serialize(None), ())
    assert not DocstringExample("", "4\n").agrees(values.serialize(5), ())
    raises = DocstringExample("", "Traceback (most recent call last):\n    ...\nTypeError: no\n")
    assert raises.agrees(None, ("TypeError", "Exception"))
    assert not raises.agrees(None, ("ValueError", "Exception"))
    assert not DocstringExample("", "4\n").agrees(None, ("TypeError",))
