"""Records of trained drafters as files, with data made up for these tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from decoding.models import registry, trained_heads
from decoding.models.trained_heads import HeadRecord

TARGET = "qwen2.5-coder-0.5b"


def write_head(cache: Path, target: str = TARGET, **changes: Any) -> Path:
    """Writes the record of a trained drafter into a cache and returns its file."""
    values: dict[str, Any] = {
        "target": target,
        "target_sha256": "a1" * 32,
        "sha256": "b2" * 32,
        "source": "trained",
        "created_at": "2026-11-20T10:49:00+00:00",
        "n_parameters": 21_400_000,
        "n_bytes": 42_800_000,
        "n_drafted": 8192,
        "taps": [2, 12, 21],
        "hours": 3.2,
        "match": [0.713, 0.642, 0.581],
    }
    folder = cache / "drafters" / registry.resolve(target).slug
    folder.mkdir(parents=True, exist_ok=True)
    trained_heads.write_record(folder, HeadRecord(**{**values, **changes}))
    return folder / trained_heads.RECORD
