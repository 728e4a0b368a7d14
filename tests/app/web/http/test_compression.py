"""Pages and scripts are compressed for clients that accept it, and nothing else changes for them."""

from __future__ import annotations

import gzip

import pytest

GZIP = {"Accept-Encoding": "gzip, deflate"}


@pytest.mark.parametrize("path", ["/", "/api/v1/openapi.json", "script"])
def test_a_client_that_accepts_gzip_gets_the_same_bytes_in_fewer(world, path):
    if path == "script":
        with world.app.test_request_context():
            path = world.app.url_for("static", filename="js/live.js")
    plain, packed = world.client.get(path), world.client.get(path, headers=GZIP)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert "Accept-Encoding" in plain.headers["Vary"]
    assert len(packed.data) * 2 < len(plain.data)
    assert int(packed.headers["Content-Length"]) == len(packed.data)
    if path != "/":  # its CSRF token changes
        assert gzip.decompress(packed.data) == plain.data


def test_a_compressed_response_is_found_unchanged_by_its_etag(world):
    packed = world.client.get("/api/v1/runs", headers=GZIP)
    again = world.client.get("/api/v1/runs", headers=GZIP | {"If-None-Match": packed.headers["ETag"]})
    assert again.status_code == 304
    assert not again.data


def test_a_short_response_a_font_and_a_client_without_gzip_get_plain_bytes(world):
    with world.app.test_request_context():
        font = world.app.url_for("static", filename="vendor/inter-5.3.0/inter-latin-wght-normal.woff2")
    for path, headers in (("/api/v1/runs", GZIP), (font, GZIP), ("/", {"Accept-Encoding": "gzip;q=0"})):
        assert "Content-Encoding" not in world.client.get(path, headers=headers).headers
