"""Static files under an address that changes with their content, so that browsers may keep them for good."""

from __future__ import annotations

import hashlib
from pathlib import Path

MAX_AGE_S = 365 * 24 * 3600


def versioned_path(folder: Path) -> str:
    """The URL path to serve `folder` at: `/static/` and a hash over the names and bytes of all its files.

    One version for the whole folder, in the path rather than in the query: relative imports of a module and fonts of a
    stylesheet then carry it too.
    """
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(folder)}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return f"/static/{digest.hexdigest()[:12]}"
