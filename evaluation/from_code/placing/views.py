"""What a caller sees of an object whose attributes are private: its properties, length, items and texts, the properties
of the objects in it, and what its methods without arguments do next.

Runs in the sandbox, after a call, on its arguments and its result; methods are called on copies of these. It executes
the project's own code.
"""

from __future__ import annotations

import functools
import inspect
import json
import operator
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from evaluation.from_code.recording import values

MAX_CHARS = 600
"""Of one view; longer ones are left out."""
MAX_VIEWS = 12
MAX_ITEMS = 50
MAX_METHODS = 8
MAX_INNER_OBJECTS = 3
"""Objects in one value whose properties are read."""
MAX_COPIED_CHARS = 2000
"""Of an object whose methods are called, each on a copy of it."""
_SPECIAL: dict[str, Callable[[Any], Any]] = {"__len__": len, "__str__": str, "__repr__": repr, "__bool__": bool}
ViewReader = Callable[[Any], Any]


def read_views(
    value: Any,
    is_own: Callable[[type], bool],
    wanted: Collection[str] | None = None,
    on_read: Callable[[str], None] = lambda _name: None,
    judged: str = "",
) -> list[list[Any]]:
    """[name, tree] for each view of an object of own classes; of a list or tuple properties of its items, of any other
    value none.

    `is_own` tells whether a class is the project's. What raises is seen as the class of its exception. With `wanted`
    only views of these names are read. `on_read` is called after each view; with "()" and "." after what the views of
    methods or of inner objects share. `judged` names the function whose code is an answer's: what its method is seen
    for cannot depend on that.
    """
    kind: Any = type(value)
    readers = _list_readers(kind, is_own)
    found = _read_all(value, [(name, functools.partial(_write, read)) for name, read in readers], wanted, on_read)
    has_private = any(name.startswith("_") for name in _get_attributes(value))
    methods = _list_methods(kind, is_own, judged) if has_private else ()
    are_wanted = wanted is None or any(f"{name}()" in wanted for name in methods)
    if methods and are_wanted and (text := _write_small(value)):
        after = _describe_unchanged(text, readers, on_read)
        calls = [(f"{name}()", functools.partial(_call_method, name, readers, after)) for name in methods]
        found += _read_all(text, calls, wanted, on_read)
    if wanted is not None and not any("." in name for name in wanted):
        return found
    inner_objects = _find_inner_objects(value, readers, is_own)
    on_read(".")
    for name, item in inner_objects:
        kind = type(item)
        own_properties = _list_properties(kind, is_own)
        properties = [(f"{name}.{own}", functools.partial(_write, read)) for own, read in own_properties]
        found += _read_all(item, properties, wanted, on_read)
    return found


def _find_inner_objects(
    value: Any, readers: list[tuple[str, ViewReader]], is_own: Callable[[type], bool]
) -> list[tuple[str, Any]]:
    """(name, object) of the first objects of own classes in an object."""
    found: dict[int, tuple[str, Any]] = {}
    for name, item in _list_items(value, readers):
        if item is not value and is_own(type(item)):
            found.setdefault(id(item), (name, item))
    return list(found.values())[:MAX_INNER_OBJECTS]


def _read_all(
    value: Any,
    readers: Sequence[tuple[str, ViewReader]],
    wanted: Collection[str] | None,
    on_read: Callable[[str], None],
) -> list[list[Any]]:
    """[name, tree] of the first MAX_VIEWS readers, which return trees."""
    found: list[list[Any]] = []
    for name, read in readers[:MAX_VIEWS]:
        if wanted is not None and name not in wanted:
            continue
        try:
            tree = read(value)
        except values.UnwritableError:
            continue
        except Exception as error:
            tree = {"raised": type(error).__name__}
        finally:
            on_read(name)
        if len(json.dumps(tree)) <= MAX_CHARS:
            found.append([name, tree])
    return found


def _write(read: ViewReader, value: Any) -> Any:
    return json.loads(values.serialize(read(value)))


@functools.cache
def _list_readers(kind: type, is_own: Callable[[type], bool]) -> list[tuple[str, ViewReader]]:
    """(name, function that reads it) of each view, in the order of the names."""
    found = dict(_list_properties(kind, is_own))
    for name, _ in _list_members(kind, is_own):
        if name in _SPECIAL:
            found.setdefault(name, _SPECIAL[name])
        elif name == "__iter__" and not hasattr(kind, "__next__"):
            found.setdefault(name, _read_items)
    return sorted(found.items())


@functools.cache
def _list_properties(kind: type, is_own: Callable[[type], bool]) -> list[tuple[str, ViewReader]]:
    names = sorted({
        name for name, member in _list_members(kind, is_own)
        if isinstance(member, (property, functools.cached_property)) and not name.startswith("_")
    })  # fmt: skip
    return [(name, operator.attrgetter(name)) for name in names]


@functools.cache
def _list_methods(kind: type, is_own: Callable[[type], bool], judged: str) -> list[str]:
    """The public methods without arguments that read private attributes or are judged, at most MAX_METHODS."""
    found = set()
    for name, member in _list_members(kind, is_own):
        if name.startswith("_") or not isinstance(member, types.FunctionType):
            continue
        code = member.__code__
        required = code.co_argcount - len(member.__defaults__ or ())
        takes_none = required == 1 and code.co_kwonlyargcount == len(member.__kwdefaults__ or ())
        is_plain = not code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
        reads_private = any(each.startswith("_") for each in code.co_names)
        if takes_none and is_plain and (reads_private or name == judged):
            found.add(name)
    return sorted(found)[:MAX_METHODS]


def _list_members(kind: type, is_own: Callable[[type], bool]) -> Iterator[tuple[str, Any]]:
    for owner in filter(is_own, kind.__mro__):
        yield from vars(owner).items()


def _list_items(value: Any, readers: list[tuple[str, ViewReader]]) -> Iterator[tuple[str, Any]]:
    """(name, object) for what an object's properties and public attributes hold; the items of a list."""
    groups = {"": value} if isinstance(value, (list, tuple)) else {}
    groups |= {name: part for name, part in _get_attributes(value).items() if not name.startswith("_")}
    for name, read in readers:
        if not name.startswith("_"):
            try:
                groups[name] = read(value)
            except Exception:  # its view says so
                continue
    for name, part in groups.items():
        parts = part if isinstance(part, (list, tuple)) else (part,)
        yield from ((f"{name}[{number}]", item) for number, item in enumerate(parts[:MAX_INNER_OBJECTS]))


def _get_attributes(value: Any) -> dict[str, Any]:
    return getattr(value, "__dict__", {})


def _write_small(value: Any) -> str:
    """The text of an object, "" for a large one."""
    try:
        text = values.serialize(value)
    except values.UnwritableError:
        return ""
    return text if len(text) <= MAX_COPIED_CHARS else ""


def _describe_unchanged(
    text: str, readers: list[tuple[str, ViewReader]], on_read: Callable[[str], None]
) -> list[Any] | None:
    """The views of a written object as `_call_method` adds them; None where they hold objects or lists, which a result
    might hold, too, and where one cannot be written."""
    try:
        copied = values.read(text)
        views = _read_after(copied, readers[:MAX_VIEWS])
        on_read("")  # on_read named these already
        views += _read_after(copied, readers[MAX_VIEWS:])
        on_read("()")
        found = json.loads(values.serialize(views))
    except Exception:  # it cannot be written or rebuilt: a method says so
        return None
    return found if all(_is_flat(tree) for _, tree in found) else None


def _is_flat(tree: Any) -> bool:
    """Whether a tree is data without identity."""
    if isinstance(tree, dict):
        ((tag, body),) = tree.items()
        return tag in ("float", "bytes") or (tag == "tuple" and all(map(_is_flat, body)))
    return not isinstance(tree, list)


def _read_after(value: Any, readers: list[tuple[str, ViewReader]]) -> list[Any]:
    found: list[Any] = []
    for view, read in readers:
        try:
            found.append([view, read(value)])
        except Exception as error:
            found.append([view, type(error).__name__])
    return found


def _call_method(name: str, readers: list[tuple[str, ViewReader]], unchanged: list[Any] | None, text: str) -> Any:
    """What a method of a written object returns, and the views of the object after it: `unchanged` where it leaves the
    object alone. Reading runs no code of the project, as copying would."""
    copied = values.read(text)
    result = getattr(copied, name)()
    if unchanged is not None and _write_small(copied) == text:
        return [json.loads(values.serialize(result)), *unchanged]
    return json.loads(values.serialize([result, *_read_after(copied, readers)]))


def _read_items(value: Any) -> Any:
    found = []
    for item in value:
        found.append(item)
        if len(found) > MAX_ITEMS:
            raise values.UnwritableError("too large")
    return found
