"""Folders of the cache that one process at a time changes: their files, locks and removal. No torch here."""

from __future__ import annotations

import shutil
from pathlib import Path

from filelock import FileLock, Timeout

from decoding.models.errors import ModelError

CONFIG, WEIGHTS = "config.json", "model.safetensors"  # of a trained head
REMOVAL_WAIT_S = 5.0  # for the process that changes a folder: storing a head takes an instant, fetching a model minutes


def make_lock(cache: Path, name: str) -> FileLock:
    """Return the lock of a folder, to be acquired. The system releases it even if its process is killed."""
    path = cache / "locks" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path)


def remove_folders(lock: FileLock, *folders: Path) -> bool:
    """Remove folders under their lock; return whether there was one. Files behind links stay.

    Raises ModelError while another process works on them, and for one that cannot be removed.
    """
    existing = [folder for folder in folders if folder.is_dir()]
    try:
        with lock.acquire(timeout=REMOVAL_WAIT_S):
            for folder in existing:
                shutil.rmtree(folder)
    except Timeout:
        raise ModelError(f"another process works on {folders[0]}: wait until it has ended.") from None
    except OSError as error:
        raise ModelError(f"{error.filename or folders[0]} cannot be removed: {error.strerror or error}.") from None
    return bool(existing)
