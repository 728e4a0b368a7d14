"""Where the cache is: models, drafters, training data, draft-length profiles and compiled kernels. No torch here."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(cache_dir: Path | str | None = None) -> Path:
    """Return the cache's folder: the argument, else `BASSLINE_CACHE_DIR`, else `~/.cache/bassline`."""
    return Path(cache_dir or os.environ.get("BASSLINE_CACHE_DIR") or Path.home() / ".cache" / "bassline").expanduser()
