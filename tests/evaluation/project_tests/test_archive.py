"""Archives: equal files are equal bytes, and nothing else than what was packed comes out."""

from __future__ import annotations

import gzip
import io
import random
import tarfile

import pytest

from evaluation.project_tests.archive import ArchiveError, pack, unpack
from evaluation.sandbox.packages import hash_files

FILES = {"b/x.py": b"1", "a.py": b"2"}


def test_equal_files_give_equal_bytes_and_come_back() -> None:
    assert pack(FILES) == pack(dict(reversed(FILES.items())))
    assert unpack(pack(FILES), hash_files(FILES)) == FILES


def test_another_content_than_the_name_promises_is_refused() -> None:
    with pytest.raises(ArchiveError, match="does not have the content"):
        unpack(pack({**FILES, "a.py": b"3"}), hash_files(FILES))
    with pytest.raises(ArchiveError, match="cannot be read"):
        unpack(b"no archive", hash_files(FILES))


def test_an_archive_that_is_damaged_inside_is_refused() -> None:
    files = {"a.bin": random.Random(1).randbytes(50_000).hex().encode()}
    content = bytearray(pack(files))
    for place in range(len(content) // 3, len(content) // 2):
        content[place] ^= 0xFF
    with pytest.raises(ArchiveError, match="cannot be read"):
        unpack(bytes(content), hash_files(files))


@pytest.mark.parametrize("name", ["../x.py", "/etc/x.py", "link"])
def test_links_and_paths_to_elsewhere_are_refused(name: str) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        if name == "link":
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(entry)
    with pytest.raises(ArchiveError, match="something other than files"):
        unpack(gzip.compress(content.getvalue()), "0" * 64)
