"""Files that are sent while they are read, so that a large one never lies in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from flask import Response


def download(chunks: Iterator[bytes], content_type: str, name: str) -> Response:
    """The chunks as a file of this name.

    The first chunk is read before the answer begins, so that an error in it becomes a problem document. A later one
    ends the connection before the file is complete, which clients notice.
    """
    first = list(islice(chunks, 1))
    answer = Response(chain(first, chunks), content_type=content_type)
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
