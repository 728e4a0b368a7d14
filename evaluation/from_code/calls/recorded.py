"""Reads the files that the recorder wrote while the tests ran.

The tests run with the user's rights and may write there too, so only regular files are read, and lines that the
recorder cannot have written are counted and left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from evaluation.from_code.calls.volatile import is_volatile
from evaluation.from_code.recording import calls as recording_calls
from evaluation.from_code.recording import seen, values

_MAX_LINE_BYTES = 2**20


@dataclass(frozen=True)
class RecordedCall:
    """One recorded call. Values are texts (`recording.values`)."""

    call: str  # (args, kwargs)
    digest: str
    shape: str
    returned: str | None = None
    raised: tuple[str, ...] = ()  # instead of a result: the names of the class of the exception and of its bases
    after: str | None = None  # the arguments after the call, if it changed them
    # the type of a result that is an iterator. Its items are not recorded: reading them would take them from the
    # caller.
    iterator: str = ""


@dataclass
class RecordedCalls:
    """Calls by function key, types of results that are not plain data by function key, and files that were not read in
    full: the reason by file name."""

    calls: dict[str, list[RecordedCall]] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)


def read_recorded_calls(folder: Path, keys: Collection[str], local_paths: Sequence[str]) -> RecordedCalls:
    """Join the files of all processes; each function of `keys` keeps the calls that one process alone would have kept.

    Calls that name one of `local_paths` are dropped, since another machine would record others; those with an address
    or the present date too, unless the function has no others: then its checks say why it becomes no task.
    """
    recorded = RecordedCalls()
    found: dict[str, dict[str, RecordedCall]] = {}
    volatile: dict[str, dict[str, RecordedCall]] = {}
    for path in sorted(folder.iterdir()):
        foreign = 0
        with open_regular_file(path) as file:
            if file is None:
                recorded.unread[path.name] = "is not a regular file, or larger than the recorder writes"
                continue
            for row in _iterate_rows(file):
                if row is None or row.get("function") not in keys:
                    foreign += 1
                elif isinstance(row.get("refused"), str):
                    recorded.refused.setdefault(row["function"], []).append(row["refused"])
                elif (call := _parse_call(row)) is None:
                    foreign += 1
                elif not any(path in text for path in local_paths for text in _list_texts(call)):
                    kept = volatile if any(map(is_volatile, _list_texts(call))) else found
                    kept.setdefault(row["function"], {}).setdefault(call.digest, call)
        if foreign:
            lines = "1 line" if foreign == 1 else f"{foreign} lines"
            recorded.unread[path.name] = f"has {lines} that the recorder did not write"
    recorded.calls = {key: _keep_smallest(list(by_digest.values())) for key, by_digest in {**volatile, **found}.items()}
    return recorded


def read_digests(folder: Path, keys: Collection[str]) -> dict[str, list[str]]:
    """The digests of all calls of a first run, by function key."""
    found: dict[str, set[str]] = {}
    for path in folder.iterdir():
        with open_regular_file(path) as file:
            for row in _iterate_rows(file) if file else ():
                if row and row["function"] in keys and isinstance(row.get("digest"), str):
                    found.setdefault(row["function"], set()).add(row["digest"])
    return {key: sorted(digests) for key, digests in found.items()}


@contextlib.contextmanager
def open_regular_file(path: Path) -> Iterator[BinaryIO | None]:
    """The file, None if it is not a regular one or too large; opens a FIFO without waiting."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode) and facts.st_size <= seen.MAX_FILE_BYTES:
        with os.fdopen(descriptor, "rb") as file:
            yield file
    else:
        os.close(descriptor)
        yield None


def _iterate_rows(file: BinaryIO) -> Iterator[dict[str, Any] | None]:
    """Each line as an object, None for one that is not; a last line that was cut off is left out: its process was
    killed while it wrote."""
    while line := file.readline(_MAX_LINE_BYTES):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if line.endswith(b"\n"):
                yield None
            continue
        yield row if isinstance(row, dict) and isinstance(row.get("function"), str) else None


def _parse_call(row: dict[str, Any]) -> RecordedCall | None:
    """The call of a row, None where the recorder cannot have written it."""
    try:
        args, kwargs = values.read_plain(row["call"])
        call = RecordedCall(
            row["call"], compute_digest(row["call"]), row["shape"],
            row.get("returned"), tuple(row.get("raised", ())), row.get("after"), row.get("iterator", ""),
        )  # fmt: skip
        values_are_ours = all(values.serialize(values.read_plain(text)) == text for text in _list_texts(call))
    except (ValueError, TypeError, KeyError, RecursionError, values.UnwritableError):
        return None
    names_are_texts = all(isinstance(name, str) for name in (call.shape, call.iterator, *call.raised))
    return call if values_are_ours and names_are_texts and type(args) is tuple and type(kwargs) is dict else None


def compute_digest(call: str) -> str:
    """A short name of a text, by which calls are chosen and told apart."""
    return hashlib.blake2b(call.encode(), digest_size=8).hexdigest()


def _list_texts(call: RecordedCall) -> list[str]:
    return [text for text in (call.call, call.returned, call.after) if text is not None]


def _keep_smallest(every: list[RecordedCall]) -> list[RecordedCall]:
    """The calls with the smallest digests, among all and among those of each shape and exception, as `recording.calls`
    chooses them."""
    every.sort(key=lambda call: call.digest)
    kept: dict[str, RecordedCall] = {call.digest: call for call in every[: recording_calls.MAX_CALLS]}
    counts: dict[str, int] = {}
    for call in every:
        for kind in (f"shape {call.shape}", *(f"raised {name}" for name in call.raised[:1])):
            counts[kind] = counts.get(kind, 0) + 1
            if counts[kind] <= recording_calls.MAX_CALLS_OF_A_KIND:
                kept[call.digest] = call
    return sorted(kept.values(), key=lambda call: call.digest)
