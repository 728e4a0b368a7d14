"""Load tests made up for tests: Pass@First falls where the rate passes what the service carries."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from evaluation.load_metrics import LoadedRequest, point
from evaluation.metrics import SampleOutcome

RATES = (0.1, 0.2, 0.5, 1.0, 2.0)
BUDGET_S = 5.0


def load_test(
    name: str = "smollm2-135m, n = 4, 5 s, together",
    *,
    carries: float = 0.5,
    skill: float = 0.6,
    rates: tuple[float, ...] = RATES,
    unclocked_s: float = 0.03,
    **settings: Any,
) -> dict[str, Any]:
    """The body of POST /api/v1/capacity of a service that solves the share `skill` up to the rate `carries`."""
    known = {
        "target": "smollm2-135m",
        "n": 4,
        "budget_s": BUDGET_S,
        "temperature": 0.2,
        "max_tokens": 256,
        "prompt_mode": "auto",
        "dataset": "humaneval",
        "dataset_sha256": "b796127e" * 8,
        "dataset_tasks": 164,
        "prompts": 20,
        "duration_s": 60.0,
        "seed": 0,
        "arm": "together",
        "device": "AMD EPYC, 2 cores",
        "machine": {"cpu_count": 2},
        "versions": {"torch_version": "2.11.0"},
    }
    body = {
        "name": name,
        "settings": known | settings,
        "idle": _point(None, skill, 1.0, unclocked_s),
        "points": [_point(rate, skill, min(1.0, carries / rate), unclocked_s) for rate in rates],
    }
    sent: dict[str, Any] = json.loads(json.dumps(body))
    return sent


def _point(rate: float | None, skill: float, served: float, unclocked_s: float) -> dict[str, Any]:
    """A point at which the share `served` of 20 requests is answered, in time."""
    asked = []
    for i in range(20):
        if i >= 20 * served:
            asked.append(LoadedRequest(f"{i}", "refused", retry_after_s=3.0, prompt=f"prompt {i}"))
            continue
        sample = SampleOutcome(f"{i}", 0, 1.0 + i / 20, -0.1, i < 20 * skill * served, 100)
        asked.append(
            LoadedRequest(
                f"{i}", "answered", (sample,), prompt=f"prompt {i}", answer_s=2.0 + i / 5, unclocked_s=unclocked_s
            )
        )
    return asdict(point(asked, rate, BUDGET_S, window_s=60.0, elapsed_s=65.0))
