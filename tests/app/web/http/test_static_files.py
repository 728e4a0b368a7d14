"""Browsers keep static files for good, and an upgrade reaches them at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.site.factory import STATIC, create_app
from app.web.http.responses import build_versioned_path


@pytest.fixture
def client(ctx):
    return create_app(ctx).test_client()


def test_every_file_of_a_page_has_the_version_in_its_address_and_is_kept(client):
    page = client.get("/").get_data(as_text=True)
    addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(addresses) > 5
    for address in addresses:
        assert address.startswith(build_versioned_path(STATIC) + "/")
        answer = client.get(address)
        assert answer.status_code == 200
        assert answer.cache_control.max_age == 365 * 24 * 3600


def test_modules_and_stylesheets_reach_other_files_by_relative_addresses():
    own = [file for kind in ("js", "css") for file in (STATIC / kind).rglob(f"*.{kind}")]
    assert own
    for file in own:
        assert "/static/" not in file.read_text(), f"{file.name} would ask for a file without its version"


def test_a_changed_renamed_or_added_file_changes_the_version(tmp_path: Path):
    (tmp_path / "js").mkdir()
    file = tmp_path / "js" / "a.js"
    file.write_text("1")
    versions = [build_versioned_path(tmp_path)]
    file.write_text("2")
    versions.append(build_versioned_path(tmp_path))
    file.rename(tmp_path / "js" / "b.js")
    versions.append(build_versioned_path(tmp_path))
    (tmp_path / "c.css").write_text("")
    versions.append(build_versioned_path(tmp_path))
    assert len(set(versions)) == 4
    assert build_versioned_path(tmp_path) == versions[-1]
