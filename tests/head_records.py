"""Records of trained drafters as files, with data made up for these tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from decoding.models import registry, trained_heads
from decoding.models.trained_heads import HeadRecord

TARGET = "qwen2.5-coder-0.5b"


def write_head(cache: Path, target: str = TARGET, **changes: Any) -> Path:
    """Writes the record of a trained drafter into a cache and returns its file."""
    steps = range(0, 2001, 100)
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
        "curve": [
            {
                "step": step,
                "loss": 9 / (1 + step / 150) if step else float("nan"),
                "divergence": 4 / (1 + step / 120),
                "match": [0.713 * step / (step + 120), 0.642 * step / (step + 200), 0.581 * step / (step + 260)],
            }
            for step in steps
        ],
        "speeds": [
            {"drafter": drafter, "batch": batch, "temperature": temperature, "tokens_per_s": plain * gain}
            for drafter, gain in (("none", 1), ("trained", 1.5), ("sibling", 1.2), ("sibling+trained", 1.7))
            for batch, plain in ((1, 30.0), (8, 110.0), (32, 200.0))
            for temperature in (0.0, 0.8)
        ],
        "data": {
            "n_tokens": 2_450_000,
            "n_documents": 9_800,
            "n_prompts": 12_345,
            "dropped_prompts": 67,
            "dropped_texts": 89,
            "n_bytes": 15_000_000_000,
            "steps": 2000,
            "weights": "int8",
        },
    }
    folder = cache / "drafters" / registry.resolve(target).slug
    folder.mkdir(parents=True, exist_ok=True)
    trained_heads.write_record(folder, HeadRecord(**{**values, **changes}))
    return folder / trained_heads.RECORD
