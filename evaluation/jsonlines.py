"""JSON lines from a file's bytes, gzipped or not, with errors that name file and line."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

GZIP_MAGIC = b"\x1f\x8b"
MAX_BYTES = 256 * 2**20
"""Largest uncompressed file; a small gzip file can expand to more than the machine's memory."""


def decode_text(data: bytes, origin: str, error: type[ValueError]) -> str:
    """The text of a file, decompressed; raises `error` where it is too large, a broken gzip file or not UTF-8."""
    return "\n".join(stream_lines(data, origin, error, error))


def stream_lines(data: bytes, origin: str, error: type[ValueError], too_large: type[ValueError]) -> Iterator[str]:
    """The lines of a file, decompressed as they are taken, so that a small file never takes much memory.

    Raises `too_large` after MAX_BYTES, `error` for a broken gzip file and for text that is not UTF-8.
    """
    n_bytes = 0
    try:
        file: Any = io.BytesIO(data)
        if data[:2] == GZIP_MAGIC:
            file = gzip.GzipFile(fileobj=file)
        while line := file.readline(MAX_BYTES + 1 - n_bytes):
            if n_bytes + len(line) > MAX_BYTES:
                raise too_large(f"{origin} holds more than {MAX_BYTES // 2**20} MiB uncompressed: split it")
            yield line.removesuffix(b"\n").decode("utf-8" if n_bytes else "utf-8-sig")
            n_bytes += len(line)
    except (OSError, EOFError, zlib.error) as reason:
        raise error(f"{origin} is not a complete gzip file: {reason}") from None
    except UnicodeDecodeError as reason:
        raise error(f"{origin} is not UTF-8 at byte {n_bytes + reason.start}: save it as UTF-8") from None


def parse_objects(lines: Iterable[str], origin: str, error: type[ValueError]) -> Iterator[tuple[str, dict[str, Any]]]:
    """("FILE, line N", object) of each line that is not blank; raises `error` where one is not a JSON object."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{origin}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as reason:
            raise error(f"{where} is not JSON ({reason}): write one object a line") from None
        if not isinstance(row, dict):
            raise error(f"{where} is a JSON {type(row).__name__}: write one object a line")
        yield where, row
