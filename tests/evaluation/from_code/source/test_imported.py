"""A prompt outlines what the function uses of other modules."""

from __future__ import annotations

import pytest

from evaluation.from_code.source.find import find_functions
from evaluation.from_code.source.imported import describe_imported

RENDER = '''
import os

from . import tools
from .shapes import Square
from .store import save as keep


def draw(canvas, size):
    """Draws."""
    square = Square(size)
    tools.clean(canvas)
    canvas.paint_over(square)
    return os.sep.join([str(square)])
'''
TOOLS = '''
def clean(canvas, deep=False):
    """Removes all."""
    return 1


def unused():
    pass
'''
SHAPES = '''
class Square:
    """Four sides."""

    def __init__(self, size):
        self.size = size
'''
CANVAS = '''
class Canvas:
    def paint_over(self, shape) -> bool:
        """Paints."""
        return True
'''
FILES = {
    "pkg/__init__.py": "",
    "pkg/render.py": RENDER,
    "pkg/tools.py": TOOLS,
    "pkg/shapes.py": "from .real_shapes import Square\n",
    "pkg/real_shapes.py": SHAPES,
    "pkg/canvas.py": CANVAS,
    "pkg/store.py": 'def save(x):\n    """Saves."""\n    return 2\n',
}


@pytest.fixture
def text(opened):
    project = opened(FILES)
    (draw,) = [each for each in find_functions(project) if each.qualified == "draw"]
    return lambda room=6_000, far=False: describe_imported(project, draw, room, far)


@pytest.mark.parametrize(
    ("wanted", "is_there"),
    [
        ('# from pkg.tools:\n# def clean(canvas, deep=False):\n#     """Removes all."""', True),
        ("unused", False),
        ('# from pkg.real_shapes:\n# class Square:\n#     """Four sides."""', True),
        ("# def paint_over(self, shape) -> bool:", False),  # stands in its class
        ("# class Canvas:\n#     def paint_over(self, shape) -> bool:", True),
        ("save", False),
    ],
    ids=("of a module", "not used", "passed on", "outside its class", "a method", "imported alone"),
)
def test_what_the_body_uses_of_other_modules_is_outlined(text, wanted, is_there):
    assert (wanted in text()) == is_there


def test_all_that_the_file_imports_comes_last_where_the_context_is_the_repository(text):
    assert text(far=True).startswith(text())
    assert '# def save(x):\n#     """Saves."""' in text(far=True)


def test_what_does_not_fit_is_left_out(text):
    assert len(text(room=150)) <= 150
    assert text(room=10) == ""


def test_a_method_that_many_classes_have_is_not_shown(opened):
    others = {f"pkg/c{n}.py": f"class C{n}:\n    def paint_over(self):\n        return {n}\n" for n in range(3)}
    project = opened({**FILES, **others})
    (draw,) = [each for each in find_functions(project) if each.qualified == "draw"]
    assert "paint_over" not in describe_imported(project, draw, 6_000)
