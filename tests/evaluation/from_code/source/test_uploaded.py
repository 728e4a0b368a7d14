"""Archives that users send: a plain project becomes files, anything that leaves its folder is refused in a sentence."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile

import pytest

from evaluation.from_code.reasons import ProjectError
from evaluation.from_code.source import uploaded
from evaluation.from_code.source.uploaded import check_sources, derive_name, unpack_project, write_project

SHOP = {"shop/shop.py": b"def f():\n    return 1\n", "shop/tests/test_shop.py": b"", "shop/.git/config": b"[core]"}


def pack_tar(files, *others: tarfile.TarInfo) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        for entry in others:
            archive.addfile(entry)
    return content.getvalue()


def pack_zip(files, *others: tuple[str, int]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
        for path, mode in others:
            entry = zipfile.ZipInfo(path)
            entry.external_attr = mode << 16
            archive.writestr(entry, b"/etc/passwd")
    return content.getvalue()


def make_entry(name: str, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, "/etc/passwd"
    return entry


@pytest.mark.parametrize(("pack", "name"), [(pack_tar, "shop.tar.gz"), (pack_tar, "x.TGZ"), (pack_zip, "shop.zip")])
def test_a_project_is_unpacked_without_its_outer_folder_and_without_git(pack, name, tmp_path):
    files = unpack_project(pack(SHOP), name)
    assert files == {"shop.py": SHOP["shop/shop.py"], "tests/test_shop.py": b""}
    write_project(files, tmp_path / "project")
    assert (tmp_path / "project" / "shop.py").read_bytes() == SHOP["shop/shop.py"]
    assert unpack_project(pack({"shop/__init__.py": b"", "shop/a.py": b""}), name) == {
        "shop/__init__.py": b"", "shop/a.py": b""
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pack", "name", "said"),
    [
        (lambda: pack_tar({"../x.py": b""}), "a.tar.gz", "leads out of its folder: remove '../x.py'"),
        (lambda: pack_tar({"/etc/x.py": b""}), "a.tar.gz", "leads out of its folder"),
        (lambda: pack_zip({"a/../../x.py": b""}), "a.zip", "leads out of its folder"),
        (lambda: pack_tar({"..": b""}), "a.tar.gz", "leads out of its folder: remove '..'"),
        (lambda: pack_zip({"a\\..\\x.py": b""}), "a.zip", "leads out of its folder"),
        (
            lambda: pack_tar({}, make_entry("link", tarfile.SYMTYPE)),
            "a.tar.gz",
            "other than files and folders: remove 'link'",
        ),
        (lambda: pack_tar({}, make_entry("hard", tarfile.LNKTYPE)), "a.tar.gz", "other than files and folders"),
        (lambda: pack_tar({}, make_entry("null", tarfile.CHRTYPE)), "a.tar.gz", "other than files and folders"),
        (lambda: pack_tar({}, make_entry("fifo", tarfile.FIFOTYPE)), "a.tar.gz", "other than files and folders"),
        (lambda: pack_zip({}, ("link", stat.S_IFLNK | 0o777)), "a.zip", "other than files and folders"),
        (lambda: pack_tar({}), "a.tar.gz", "holds no file"),
        (lambda: b"not an archive", "a.zip", "a.zip cannot be read"),
        (lambda: b"not an archive", "a.tar.gz", "a.tar.gz cannot be read"),
        (lambda: pack_tar(SHOP)[:60], "a.tar.gz", "a.tar.gz cannot be read"),
        (lambda: b"", "a.py", "is not an archive: give a file that ends with .zip"),
    ],
)
def test_what_is_no_plain_project_is_refused_in_one_sentence(pack, name, said):
    with pytest.raises(ProjectError) as refused:
        unpack_project(pack(), name)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert ("cannot be read" in str(refused.value)) == ("cannot be read" in said)


@pytest.mark.parametrize(("pack", "name"), [(pack_tar, "a.tar.gz"), (pack_zip, "a.zip")])
def test_an_archive_that_unpacks_to_too_much_is_refused(pack, name, monkeypatch):
    monkeypatch.setattr(uploaded, "MAX_BYTES", 2**20)
    for files in ({"zeros.py": bytes(2**20 + 1)}, {f"{i}.py": bytes(2**19) for i in range(3)}):
        with pytest.raises(ProjectError, match="files or 1 MiB"):
            unpack_project(pack(files), name)
    monkeypatch.setattr(uploaded, "MAX_FILES", 2)
    with pytest.raises(ProjectError, match="more than 2 files"):
        unpack_project(pack(dict.fromkeys("abc", b"")), name)


def test_a_path_that_is_a_file_and_a_folder_is_refused(tmp_path):
    with pytest.raises(ProjectError, match="cannot be written"):
        write_project({"a": b"", "a/b.py": b""}, tmp_path / "project")


def test_a_source_that_brings_its_reader_down_is_refused(tmp_path, monkeypatch):
    write_project({"shop.py": b"def f():\n    return 1\n", "bad.py": b"def f(:\n"}, tmp_path / "project")
    check_sources(tmp_path / "project")  # a file with an error is left out later, with its reason
    monkeypatch.setattr(uploaded, "_READ", "import os; os.abort()")
    with pytest.raises(ProjectError, match="its parser failed"):
        check_sources(tmp_path / "project")


@pytest.mark.parametrize(
    ("name", "derived"),
    [("shop.tar.gz", "shop"), ("My Shop-1.0.ZIP", "My-Shop-1.0"), ("../../x.tgz", "x"), (".zip", "project")],
)
def test_a_project_is_called_like_its_archive(name, derived):
    assert derive_name(name) == derived
