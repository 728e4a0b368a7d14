"""Archives: the files that tests need, known by the hash of their content.

A task names its archives, and the dataset's database keeps them. So a worker on another machine judges by the same
files, whatever is installed there.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import PurePosixPath

from evaluation.sandbox.packages import hash_files

MAX_BYTES = 96 * 2**20
"""Of the files of an archive."""
MAX_FILES = 20_000
_LEVEL = 3
"""Of compression: the usual 6 takes twice as long and saves an eighth."""


class ArchiveError(ValueError):
    """An archive that cannot be made or read; one sentence."""


def pack(files: Mapping[str, bytes]) -> bytes:
    """The files as a compressed tar; equal files give equal bytes."""
    if sum(map(len, files.values())) > MAX_BYTES or len(files) > MAX_FILES:
        raise ArchiveError(f"the files have more than {MAX_BYTES // 2**20} MiB, or are more than {MAX_FILES}")
    content = io.BytesIO()
    # Compressed as it is written: neither twice in memory, nor in one call that no signal interrupts.
    with (
        gzip.GzipFile("", "wb", _LEVEL, content, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def unpack(content: bytes, sha256: str) -> dict[str, bytes]:
    """The files of an archive by path. Raises ArchiveError where it is not the one with this hash."""
    files: dict[str, bytes] = {}
    size = 0
    try:
        with gzip.open(io.BytesIO(content)) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
            for entry in tar:
                size += entry.size
                if size > MAX_BYTES or len(files) >= MAX_FILES:
                    limits = f"{MAX_BYTES // 2**20} MiB or {MAX_FILES} files"
                    raise ArchiveError(f"the archive {sha256[:16]} has more than {limits}")
                opened = tar.extractfile(entry) if entry.isreg() else None
                if opened is None or not is_relative(entry.name):
                    name = entry.name[:100]
                    raise ArchiveError(
                        f"the archive {sha256[:16]} holds something other than files inside its folder: {name}"
                    )
                files[entry.name] = opened.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise ArchiveError(f"the archive {sha256[:16]} cannot be read: {error}") from None
    if hash_files(files) != sha256:
        raise ArchiveError(f"the archive {sha256[:16]} does not have the content that its name promises")
    return files


def is_relative(path: str) -> bool:
    """Whether a path stays inside the folder that it is relative to."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\0" not in path
