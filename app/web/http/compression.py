"""Compresses responses with gzip where the client accepts it: pages, scripts, styles and documents shrink to a fifth.

With the standard library, because everything a library adds (other codecs, a cache) would change little: a page takes
1 ms. A secret beside a text that the caller chose can leak through the length of a compressed response (BREACH). It
takes requests from another site with the reader's cookie, and SameSite=Lax keeps the cookie out of them.
"""

from __future__ import annotations

import gzip

from flask import Response, request

COMPRESSED = frozenset(
    {
        *("text/html", "text/css", "text/csv", "text/plain", "text/javascript", "application/javascript"),
        *("application/json", "application/problem+json", "image/svg+xml"),
    }
)
LEAST_BYTES = 1000
LEVEL = 5


def compress(response: Response) -> Response:
    """Compresses a whole response of a type in COMPRESSED; a stream, a part and a short one stay as they are."""
    if response.mimetype not in COMPRESSED or response.status_code != 200 or "Content-Encoding" in response.headers:
        return response
    response.vary.add("Accept-Encoding")
    if response.is_streamed and not response.direct_passthrough:
        return response
    if request.method == "HEAD" or not request.accept_encodings["gzip"]:
        return response
    response.direct_passthrough = False  # a file, which is read whole
    body = response.get_data()
    if len(body) < LEAST_BYTES:
        return response
    response.set_data(gzip.compress(body, LEVEL, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    etag, _ = response.get_etag()
    if etag:
        response.set_etag(etag, weak=True)  # a strong one would name these bytes
    return response
