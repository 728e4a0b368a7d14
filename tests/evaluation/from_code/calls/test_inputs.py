"""Generated inputs: of the types that hints and recorded calls name, and the same ones every time."""

from __future__ import annotations

import ast

import pytest

from evaluation.from_code.calls.inputs import COUNT, generate, hint_of
from evaluation.from_code.calls.recorded import Call
from evaluation.from_code.recording import values
from evaluation.from_code.source.find import find

SOURCE = '''
def join(words: list[str], sep="-", *, times: int = 1, deep: Tree = None):
    """Joins."""
    a = 1
    b = 2
    return sep.join(words) * times
'''


def recorded(*arguments):
    return [Call(values.write((args, {})), str(i), "") for i, args in enumerate(arguments)]


def drawn(opened, *arguments):
    functions = find(opened(m=SOURCE))
    (found,) = generate(functions, {functions[0].key: recorded(*arguments)}).values()
    return found


def test_the_same_recorded_calls_give_the_same_inputs_in_any_folder(opened, tmp_path, monkeypatch):
    first = drawn(opened, (["a", "b"],), (["x"], "+"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "constants.py").write_text("N = 123456\n")
    assert drawn(opened, (["a", "b"],), (["x"], "+")) == first
    assert COUNT / 2 < len(first) <= COUNT


def test_inputs_are_of_the_types_of_hints_and_defaults(opened):
    for call in drawn(opened, (["a", "b"],)):
        args, kwargs = values.read(call.call)
        assert all(type(word) is str for word in args[0])
        assert set(kwargs) <= {"sep", "times"}
        assert type(kwargs.get("sep", "")) is str
        assert type(kwargs.get("times", 1)) is int


def test_recorded_calls_are_not_drawn_again(opened):
    assert values.write(((["a"],), {})) not in [call.call for call in drawn(opened, (["a"],))]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("int", ["int"]), ("'int | None'", ["union", ["int"], ["none"]]),
        ("Optional[str]", ["union", ["str"], ["none"]]),
        ("typing.List[int]", ["list", ["int"]]), ("tuple[int, ...]", ["tuples", ["int"]]),
        ("tuple[int, str]", ["tuple", ["int"], ["str"]]),
        ("Mapping[str, list[int]]", ["dict", ["str"], ["list", ["int"]]]),
        ("Literal['a', 'b']", ["literal", "a", "b"]), ("set[int]", ["set", ["int"]]), ("Any", None), ("Tree", None),
        ("list[Tree]", None), ("Tree | int", ["union", ["int"]]), ("Callable[[int], int]", None),
        ("'not valid('", None),
    ],
)  # fmt: skip
def test_hints_are_read_from_the_source(text, hint):
    assert hint_of(ast.parse(text, mode="eval").body) == hint
