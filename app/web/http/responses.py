"""Responses that save work: compressed ones, streamed files, ETags, and static files under a versioned address.

A secret beside a text that the caller chose can leak through the length of a compressed response (BREACH). It takes
requests from another site with the reader's cookie, and SameSite=Lax keeps the cookie out of them.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path

from flask import Response, request

from app.core.errors import BusyError
from app.web.http.operations import JSON
from app.web.http.request_context import get_context
from app.web.http.security import get_caller, is_api

STATIC_AGE_S = 365 * 24 * 3600


def send_download(chunks: Iterator[bytes], content_type: str, name: str) -> Response:
    """The chunks as a file of this name, which never lies in memory as a whole.

    The first chunk is read before the answer begins, so that an error in it becomes a problem document. A later one
    ends the connection before the file is complete, which clients notice. Raises BusyError if the caller's share of the
    downloads or all of them are under way: each holds a thread for as long as its client reads.
    """
    pool, key = get_context().downloads, get_caller().key
    if not pool.acquire(key):
        raise BusyError("too many downloads are under way: try again when one of them has ended")
    try:
        first = list(islice(chunks, 1))
    except BaseException:
        pool.release(key)
        raise
    answer = Response(chain(first, chunks), content_type=content_type)
    answer.call_on_close(partial(pool.release, key))
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


def add_etag(response: Response) -> Response:
    """Tags a successful JSON response of the API to GET with a hash of its content, and answers If-None-Match: a client
    that already has the same content gets 304 without a body."""
    if (request.method, response.status_code, response.mimetype) == ("GET", 200, JSON) and is_api(request.path):
        response.add_etag(weak=True)
        response.make_conditional(request)  # changes the response in place
    return response


def build_versioned_path(folder: Path) -> str:
    """The URL path to serve `folder` at: `/static/` and a hash over the names and bytes of all its files.

    In the path, so that relative imports of a module and fonts of a stylesheet carry it too.
    """
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(folder)}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return f"/static/{digest.hexdigest()[:12]}"


COMPRESSED = ("text/", "application/json", "application/problem+json", "application/javascript", "image/svg+xml")
MIN_COMPRESSED_BYTES = 1000
LEVEL = 5


def compress(response: Response) -> Response:
    """Compresses a whole response of a type in COMPRESSED; a stream, a part and a short one stay as they are."""
    if response.status_code != 200 or not (response.mimetype or "").startswith(COMPRESSED):
        return response
    response.vary.add("Accept-Encoding")
    if response.is_streamed and not response.direct_passthrough:
        return response
    if request.method == "HEAD" or not request.accept_encodings["gzip"]:
        return response
    response.direct_passthrough = False  # a file, which is read whole
    body = response.get_data()
    if len(body) < MIN_COMPRESSED_BYTES:
        return response
    response.set_data(gzip.compress(body, LEVEL, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    etag, _ = response.get_etag()
    if etag:
        response.set_etag(etag, weak=True)  # a strong one would name these bytes
    return response
