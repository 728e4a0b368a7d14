"""Objects as data: written and rebuilt without running a line of what their classes overload."""

from __future__ import annotations

import collections
import datetime
import enum
import functools
import re
import threading
import zoneinfo
from dataclasses import dataclass

import pytest

from evaluation.from_code.recording import values


class Colour(enum.Enum):
    RED = 1


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def double(self):
        return 2 * self.a


class Slotted:
    __slots__ = ("x", "y")


class Stack(list):
    name = ""


class Version(tuple):
    __slots__ = ()


class OwnError(KeyError):
    pass


DateTuple = collections.namedtuple("Date", ["year", "month"])  # its module has another name for it than it has itself


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


class Evil:
    """Overloads whatever reading or building it the usual way would call."""

    __slots__ = ("state",)

    def _refuse(self, *_arguments):
        raise SystemExit("code of the project ran")

    __getattribute__ = __setattr__ = __delattr__ = __eq__ = __bool__ = __len__ = __iter__ = __repr__ = _refuse
    __reduce__ = __reduce_ex__ = __getstate__ = __setstate__ = __copy__ = __deepcopy__ = __dir__ = _refuse
    __hash__ = None

    def __init__(self):
        raise SystemExit("code of the project ran")


MISSING = object()


def function(x):
    return x


def again(value):
    text = values.serialize(value)
    back = values.read(text)
    assert values.serialize(back) == text
    return back


def test_dict_slots_and_builtin_content_come_back():
    assert vars(again(Plain(a=[1], b=Plain()))).keys() == {"a", "b"}
    slotted = Slotted()
    slotted.x = {"k": 1}
    back = again(slotted)
    assert back.x == {"k": 1}
    assert not hasattr(back, "y")
    stack = Stack([1, 2])
    stack.name = "s"
    back = again(stack)
    assert (type(back), back, back.name) == (Stack, [1, 2], "s")
    assert again(Version((1, 2))) == (1, 2)
    assert again(Point(1, 2)) == Point(1, 2)
    error = again(OwnError("k", 1))
    assert (type(error), error.args) == (OwnError, ("k", 1))


BUILTIN = [
    collections.OrderedDict(b=1, a=2), collections.deque([1], 3), collections.Counter("aab"), bytearray(b"x"), 2j,
    datetime.datetime(2024, 2, 29, 1, tzinfo=datetime.UTC), datetime.timedelta(3), datetime.date(1, 2, 3),
    slice(1, None), re.compile("a.", re.IGNORECASE), Colour.RED, Plain, function, len, ..., MISSING, re,
    collections.defaultdict(list, a=[1]),
]  # fmt: skip


@pytest.mark.parametrize("value", BUILTIN, ids=lambda value: type(value).__name__)
def test_types_of_the_standard_library_and_what_has_a_name_come_back(value):
    back = again(value)
    assert (type(back), back) == (type(value), value)


def _fail(_self):
    raise RuntimeError("code of the project ran in the recorder")


def _hide(kind, *names):
    """A subclass whose attributes of these names run its own code."""
    return type("Hiding" + kind.__name__, (kind,), {name: property(_fail) for name in names})


@pytest.mark.parametrize(
    "value",
    [
        _hide(datetime.datetime, "year", "hour", "tzinfo", "fold")(2024, 2, 29, 1),
        _hide(datetime.date, "year", "month", "day")(2024, 2, 29),
        _hide(datetime.time, "hour", "microsecond", "fold")(1),
        _hide(datetime.timedelta, "days", "seconds")(3),
        _hide(collections.deque, "maxlen")([1], 3),
        _hide(collections.defaultdict, "default_factory")(list, a=[1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_subclass_runs_none_of_its_attributes_while_it_is_written(value, monkeypatch):
    kind = type(value)
    monkeypatch.setattr(kind, "__module__", __name__)
    monkeypatch.setitem(globals(), kind.__name__, kind)
    kind.__qualname__ = kind.__name__
    assert type(again(value)) is kind


def test_a_value_that_this_version_of_python_cannot_rebuild_is_refused_alone():
    text = values.serialize(Slotted()).replace("Slotted", "Unbuildable")
    with pytest.raises(ValueError, match="a Unbuildable"):
        values.read(text)


class Unbuildable:
    def __del__(self):
        pass


class Zone(datetime.tzinfo):
    def __init__(self, hours):
        self.hours = hours

    def utcoffset(self, moment):
        return datetime.timedelta(hours=self.hours)


def test_a_class_under_another_name_than_its_own_comes_back():
    text = values.serialize([DateTuple(2026, 11), DateTuple])
    assert f"{__name__}:DateTuple" in text
    moment, kind = values.read(text)
    assert moment == (2026, 11)
    assert type(moment) is kind is DateTuple


def test_moments_come_back_with_their_zone():
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    for tzinfo in (zone, Zone(3)):
        moment = datetime.datetime(2024, 7, 1, 12, tzinfo=tzinfo)
        assert again(moment).utcoffset() == moment.utcoffset()
    with pytest.raises(values.UnwritableError, match="a repeated time of day"):
        values.serialize(datetime.datetime(2024, 10, 27, 2, 30, tzinfo=zone, fold=1))


def test_circles_and_identity_come_back():
    parent = Plain(children=[])
    parent.children.append(Plain(parent=parent))
    back = again((parent, parent))
    assert back[0] is back[1] is back[0].children[0].parent


def test_a_method_and_a_partial_function_come_back():
    plain = Plain(a=1)
    back, method = again((plain, plain.double))
    assert method() == 2
    assert method.__self__ is back
    assert again(functools.partial(function, 3))() == 3


def test_an_evil_class_runs_nothing():
    evil = object.__new__(Evil)
    Evil.__dict__["state"].__set__(evil, [1])
    back = again([evil])[0]
    assert Evil.__dict__["state"].__get__(back) == [1]


class Finalized:
    def __del__(self):
        pass


def nested():
    class Inner:
        pass

    return Inner()


@pytest.mark.parametrize(
    "value",
    [lambda: 1, iter([]), threading.Lock(), Finalized(), nested(), object(), (n for n in ())],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_name_or_state_is_refused(value):
    with pytest.raises(values.UnwritableError):
        values.serialize(value)
