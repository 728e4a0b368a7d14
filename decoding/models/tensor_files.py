"""Writes safetensors files that are as readable as other files: the library gives its own the mode 0600.

A cache may belong to a group of workers that run as different users.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file


def save_tensors(tensors: dict[str, torch.Tensor], file: Path, metadata: dict[str, str] | None = None) -> None:
    """Write contiguous tensors into a file with the mode that the process gives to new files."""
    file.touch()
    mode = file.stat().st_mode
    save_file(tensors, file, metadata)
    file.chmod(mode)
