"""Objects as data: what is written of them, and how they are rebuilt.

A class or function is written by its name where that name leads back to it. Of any other object are written its class
and its state. Both directions go around everything that a class can overload: `__getattribute__`, `__setattr__`,
`__reduce__`, `__iter__`, `__new__`, `__init__`. What Python itself would not build that way (files, locks,
sockets) and objects with a finalizer are refused.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import functools
import io
import re
import sys
import types
import zoneinfo
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring_ascii as encode
from typing import Any


class UnwritableObjectError(Exception):
    """A value that is neither found by its name nor has a state that can be written."""


def _build_reader(kind: Any, *names: str) -> Callable[[Any], tuple[Any, ...]]:
    """A function that reads these attributes by the builtin type's own descriptors: a subclass may have others of these
    names."""
    descriptors = [getattr(kind, name) for name in names]
    return lambda value: tuple(descriptor.__get__(value) for descriptor in descriptors)


def _build_clock_reader(kind: Any, *date_names: str) -> Callable[[Any], tuple[Any, ...]]:
    """A function that reads a time of day and raises UnwritableObjectError for the second of two equal ones
    (`fold`)."""
    read = _build_reader(kind, *date_names, "hour", "minute", "second", "microsecond", "tzinfo")

    def read_clock(value: Any) -> tuple[Any, ...]:
        if kind.fold.__get__(value):
            raise UnwritableObjectError("a repeated time of day")
        return read(value)

    return read_clock


def _read_zone_data(key: str) -> bytes:
    """The file of a time zone: where the value is rebuilt there is no database of zones."""
    for folder in zoneinfo.TZPATH:
        try:
            with open(f"{folder}/{key}", "rb") as file:
                return file.read()
        except OSError:
            continue
    raise UnwritableObjectError("a ZoneInfo without a file")


_CONSTANTS = {"Ellipsis": ..., "NotImplemented": NotImplemented}
_sentinels: dict[int, tuple[Any, str]] = {}
_MAX_SENTINELS = 200
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_ARGS: Any = vars(BaseException)["args"]
_MUTABLE: dict[Any, Any] = {  # how content is read, and put into an empty object
    list: (list.__iter__, list.append),
    set: (set.__iter__, set.add),
    collections.deque: (collections.deque.__iter__, collections.deque.append),
    bytearray: (bytearray.__iter__, bytearray.append),
    collections.OrderedDict: (collections.OrderedDict.items, collections.OrderedDict.__setitem__),
    collections.defaultdict: (dict.items, dict.__setitem__),
    dict: (dict.items, dict.__setitem__),
}
_EXTRA: dict[Any, Any] = {  # what an empty object is made with
    collections.deque: collections.deque.maxlen,
    collections.defaultdict: vars(collections.defaultdict)["default_factory"],
}
_IMMUTABLE: dict[Any, Any] = {  # the arguments that make it
    tuple: lambda value: (tuple(tuple.__iter__(value)),),
    frozenset: lambda value: (tuple(frozenset.__iter__(value)),),
    str: lambda value: (str.__str__(value),),
    int: lambda value: (int.__int__(value),),
    float: lambda value: (float.__float__(value),),
    bytes: lambda value: (bytes(memoryview(value)),),
    complex: _build_reader(complex, "real", "imag"),
    datetime.datetime: _build_clock_reader(datetime.datetime, "year", "month", "day"),
    datetime.date: _build_reader(datetime.date, "year", "month", "day"),
    datetime.time: _build_clock_reader(datetime.time),
    datetime.tzinfo: lambda _value: (),
    zoneinfo.ZoneInfo: lambda value: (value.key, _read_zone_data(value.key)),
    datetime.timedelta: _build_reader(datetime.timedelta, "days", "seconds", "microseconds"),
    datetime.timezone: datetime.timezone.__getinitargs__,  # type: ignore[attr-defined]
    decimal.Decimal: lambda value: (decimal.Decimal.__str__(value),),
    slice: lambda value: (value.start, value.stop, value.step),
    functools.partial: lambda value: (value.func, *value.args),
    re.Pattern: lambda value: (value.pattern, value.flags),
    types.MappingProxyType: lambda value: (dict(value),),
}  # fmt: skip
_EXACT = (slice, functools.partial, re.Pattern, types.MappingProxyType, datetime.timezone, zoneinfo.ZoneInfo)
"""Of these, only the exact types are written, no subclasses."""


def write_by_name(value: Any) -> str | None:
    """The text of a value that is found by a name, None for another.

    Raises UnwritableObjectError for a class, function, module or enum member that its name does not lead to, and for an
    `object()` that no module names.
    """
    kind: Any = type(value)
    found = _classify_by_name(kind)
    if found is None:
        return None
    if found == "constant":
        return next(f'{{"constant":"{name}"}}' for name, constant in _CONSTANTS.items() if value is constant)
    if found == "module":
        module: str = value.__name__
        if sys.modules.get(module) is value:
            return f'{{"module":{encode(module)}}}'
        raise UnwritableObjectError("a module")
    if found == "function" and getattr(value, "__self__", None) not in (None, sys.modules.get("builtins")):
        return None
    if found == "member":
        name = object.__getattribute__(value, "__dict__").get("_name_")
        if vars(type(value)).get("_member_map_", {}).get(name) is not value:
            raise UnwritableObjectError(f"a {type(value).__name__}")
        return f'{{"member":[{encode(_find_name(type(value)))},{encode(name)}]}}'
    return f'{{"named":{encode(_find_sentinel_name(value) if found == "sentinel" else _find_name(value))}}}'


def is_found_by_name(kind: type) -> bool:
    """Whether values of this type are written by a name."""
    return _classify_by_name(kind) is not None


@functools.cache
def _classify_by_name(kind: Any) -> str | None:
    """How values of this type are found by a name, None where they are not."""
    if any(kind is type(constant) for constant in _CONSTANTS.values()):
        return "constant"
    if kind is types.ModuleType:
        return "module"
    if isinstance(kind, type) and type.__subclasscheck__(type, kind):
        return "class"
    if kind in _FUNCTIONS:
        return "function"
    if type.__subclasscheck__(enum.Enum, kind):
        return "member"
    return "sentinel" if kind is object else None


def _find_name(value: Any) -> str:
    module = getattr(value, "__module__", None)
    qualified = getattr(value, "__qualname__", "")
    found: Any = sys.modules.get(module) if isinstance(module, str) else None
    for part in qualified.split("."):
        found = vars(found).get(part) if isinstance(found, (type, types.ModuleType)) else None
        found = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    if found is not value and isinstance(value, type) and "." not in qualified:
        qualified = _find_other_name(value, module)
        found = value if qualified else None
    if found is not value or module == "__main__":
        raise UnwritableObjectError(f"a {type(value).__name__} that its name does not lead to")
    return f"{module}:{qualified}"


def _find_other_name(value: type, module: Any) -> str:
    """The first name, in their order, of a class that its module calls otherwise than it calls itself, as in
    `DateTuple = namedtuple("Date", ...)`; "" where it has none."""
    names = vars(sys.modules[module]) if isinstance(module, str) and module in sys.modules else {}
    return min((name for name, other in list(names.items()) if other is value), default="")


def _find_sentinel_name(value: Any) -> str:
    """The name of a module's sentinel, `missing = object()`, in the first module, by name, that has one."""
    known = _sentinels.get(id(value))
    if known is None and len(_sentinels) < _MAX_SENTINELS:
        known = _sentinels[id(value)] = (
            value,
            _search_sentinel_name(value),
        )  # the value stays, so its id stays its own
    if known is None or not known[1]:
        raise UnwritableObjectError("a nameless object()")
    return known[1]


def _search_sentinel_name(value: Any) -> str:
    for name, module in sorted(sys.modules.items()):
        if type(module) is types.ModuleType and name != "__main__":
            for attribute, found in list(vars(module).items()):
                if found is value:
                    return f"{name}:{attribute}"
    return ""


def resolve_name(name: str) -> Any:
    """What a written name leads to. Raises an exception where it leads nowhere."""
    module, _, qualified = name.partition(":")
    __import__(module)
    found: Any = sys.modules[module]
    for part in qualified.split("."):
        found = vars(found)[part]
        found = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    return found


def write_state(value: Any, write: Callable[[Any], None], out: list[str], temporaries: list[Any]) -> None:
    """Append the text of an object's class and state to `out`; `write` appends a part. Raises UnwritableObjectError."""
    kind = type(value)
    if kind is types.MethodType:
        function = value.__func__
        name = getattr(function, "__name__", "")
        if getattr(type(value.__self__), name, None) is not function:
            raise UnwritableObjectError("a method that its name does not lead to")
        out.append('{"method":[')
        write(value.__self__)
        out.append(f",{encode(name)}]}}")
        return
    base: Any = _find_builtin_base(kind)  # type: ignore[arg-type]
    out.append(f'{{"object":[{encode(_find_name(kind))},')
    if base in _MUTABLE:
        items = list(_MUTABLE[base][0](value))
        temporaries.extend(items)
        out.append("[")
        write(_EXTRA[base].__get__(value) if base in _EXTRA else None)
        out.append(",")
        write_all(items, write, out)
        out.append("],")
    elif base in _IMMUTABLE:
        parts = _IMMUTABLE[base](value)
        temporaries.extend(parts)
        write_all(parts, write, out)
        out.append(",")
    elif base is not object:
        write_all(_ARGS.__get__(value), write, out)
        out.append(",")
    else:
        out.append("null,")
    attributes = value.keywords if kind is functools.partial else read_attributes(kind, value)
    separator = "["
    for name, part in attributes.items():
        out.append(f"{separator}[{encode(name)},")
        write(part)
        out.append("]")
        separator = ","
    out.append("]]}" if attributes else "[]]}")


def write_all(parts: Iterable[Any], write: Callable[[Any], None], out: list[str]) -> None:
    """Append the text of a list of these parts to `out`."""
    separator = "["
    for part in parts:
        out.append(separator)
        write(part)
        separator = ","
    out.append("]" if separator == "," else "[]")


@functools.cache
def _find_builtin_base(kind: Any) -> Any:
    """The builtin type that an object's class derives from. Raises UnwritableObjectError."""
    base = next(
        each for each in kind.__mro__
        if each in _MUTABLE or each in _IMMUTABLE or each is object
        or (each.__module__ == "builtins" and type.__subclasscheck__(BaseException, each))
    )  # fmt: skip
    if (base in _EXACT and kind is not base) or any("__del__" in vars(each) for each in kind.__mro__):
        raise UnwritableObjectError(f"a {kind.__name__}")
    if base is not object and kind in (base, *_EXACT):
        return base
    try:
        arguments = (1, 1, 1) if base in (datetime.datetime, datetime.date) else ()
        base.__new__(kind, *arguments)
    except Exception:
        raise UnwritableObjectError(f"a {kind.__name__}") from None
    return base


def read_attributes(kind: type, value: Any) -> dict[str, Any]:
    """The `__dict__` and the slots of an object, read by Python's own descriptors."""
    found: dict[str, Any] = {}
    for name, descriptor in _list_descriptors(kind):
        if name is None:
            found.update(descriptor.__get__(value))
            continue
        try:
            found[name] = descriptor.__get__(value)
        except AttributeError:
            continue
    for name in found:
        if type(name) is not str:
            raise UnwritableObjectError(f"a {kind.__name__}")
    return found


@functools.cache
def _list_descriptors(kind: Any) -> list[tuple[str | None, Any]]:
    """What reads the attributes of an object: its slots by name, and None for its `__dict__`."""
    found: list[tuple[str | None, Any]] = []
    for each in kind.__mro__:
        own = vars(each)
        holder = own.get("__dict__")
        if type(holder) is types.GetSetDescriptorType:
            found.append((None, holder))
        if each.__module__ != "builtins" and each not in _MUTABLE and each not in _IMMUTABLE:
            found += [(name, slot) for name, slot in own.items() if type(slot) is types.MemberDescriptorType]
    return found


class ObjectReader:
    """Rebuilds the value of one tree; `plain` reads plain data. Content and attributes are set last, so that objects
    may refer to each other."""

    def __init__(self, plain: Callable[[Any, Callable[[Any], Any]], Any]) -> None:
        self._plain = plain
        self._numbered: dict[int, Any] = {}
        self._later: list[Callable[[], None]] = []

    def finish(self) -> None:
        """Fill the dicts and sets of objects: their keys are complete now."""
        for each in self._later:
            each()

    def build_value(self, tree: Any, number: int = 0) -> Any:
        """The value of a tree; containers and objects with a number are known before their parts are read."""
        if not isinstance(tree, dict):
            if number:
                made: list[Any] = []
                self._numbered[number] = made
                made.extend(map(self.build_value, tree))
                return made
            return self._plain(tree, self.build_value)
        ((tag, body),) = tree.items()
        if tag == "number":
            return self.build_value(body[1], body[0])
        if tag == "ref":
            return self._numbered[body]
        if tag == "constant":
            return _CONSTANTS[body]
        if tag == "module":
            __import__(body)
            return sys.modules[body]
        if tag == "named":
            return resolve_name(body)
        if tag == "member":
            return resolve_name(body[0])[body[1]]
        if tag == "method":
            return getattr(self.build_value(body[0]), body[1])
        if tag == "object":
            return self._build_object(body, number)
        if number:
            return self._build_numbered_container(tag, body, number)
        return self._plain(tree, self.build_value)

    def _build_numbered_container(self, tag: str, body: Any, number: int) -> Any:
        made: Any = {} if tag == "dict" else set()
        self._numbered[number] = made
        if tag == "dict":
            pairs = [(self.build_value(key), self.build_value(item)) for key, item in body]
            self._later.append(lambda: made.update(pairs))
        else:
            made.update(map(self.build_value, body))
        return made

    def _build_object(self, body: Any, number: int) -> Any:
        name, content, attributes = body
        kind = resolve_name(name)
        base = _find_builtin_base(kind)
        if base in _MUTABLE:
            extra = self.build_value(content[0])
            made = self._make_empty(kind, base, extra)
        elif base is functools.partial:
            function, *given = [self.build_value(part) for part in content]
            return functools.partial(function, *given, **{k: self.build_value(v) for k, v in attributes})
        elif base is zoneinfo.ZoneInfo:
            key, data = map(self.build_value, content)
            made = zoneinfo.ZoneInfo.from_file(io.BytesIO(data), key=key)
            attributes = []
        elif base is re.Pattern:
            pattern, flags = content
            return re.compile(self.build_value(pattern), flags)
        elif base is object:
            made = object.__new__(kind)
        else:
            made = base.__new__(kind, *map(self.build_value, content))
        if number:
            self._numbered[number] = made
        if base in _MUTABLE:
            put = _MUTABLE[base][1]
            items = [self.build_value(item) for item in content[1]]
            if issubclass(base, (dict, set)):
                self._later.append(lambda: _put_all(put, made, base, items))
            else:
                _put_all(put, made, base, items)
        _set_attributes(kind, made, {key: self.build_value(part) for key, part in attributes})
        return made

    @staticmethod
    def _make_empty(kind: Any, base: Any, extra: Any) -> Any:
        made = base.__new__(kind)
        if base is collections.deque:
            collections.deque.__init__(made, (), extra)
        elif base is collections.defaultdict:
            collections.defaultdict.__init__(made, extra)
        return made


def _put_all(put: Any, made: Any, base: type, items: list[Any]) -> None:
    for item in items:
        if issubclass(base, dict):
            put(made, *item)
        else:
            put(made, item)


def _set_attributes(kind: type, made: Any, attributes: dict[str, Any]) -> None:
    left = dict(attributes)
    for name, slot in _list_descriptors(kind):
        if name is not None and name in left:
            slot.__set__(made, left.pop(name))
    if left:
        holder = next(descriptor for name, descriptor in _list_descriptors(kind) if name is None)
        holder.__get__(made).update(left)
