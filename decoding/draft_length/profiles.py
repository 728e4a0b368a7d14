"""The draft-length table of Su et al. (arXiv 2310.18813): measured once per batch size, then looked up.

The best draft length falls as the batch grows. In the paper's model a sample accepts l(s) ~ c * s^g of s draft tokens
at any batch size, the time of a verify is linear in s with a slope that grows with the batch, and drafting takes s
steps. A profile measures acceptance and times at a few lengths and batch sizes on real prompts, fits the model, and
keeps the best length per batch size.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from decoding.limits import MAX_DRAFT_LENGTH
from decoding.request import RequestError
from kernels.cache import cache_folder


@dataclass(frozen=True, slots=True)
class LengthMeasurement:
    """Measurements at one batch size and draft length: mean accepted tokens per sample and round, mean seconds."""

    batch: int
    length: int
    accepted: float
    draft_s: float
    verify_s: float


@dataclass(frozen=True, slots=True)
class BatchFit:
    """The fit for one batch size: `verify_s + slope_s * s` to verify and `step_s * s` to draft s tokens."""

    batch: int
    verify_s: float
    slope_s: float
    step_s: float
    best: int


@dataclass(frozen=True, slots=True)
class Profile:
    """The measurements for one target, drafter and device (`key`), the acceptance fit c * s^g, and the table."""

    key: dict[str, str]
    c: float
    g: float
    fits: tuple[BatchFit, ...]
    measured: tuple[LengthMeasurement, ...]

    @classmethod
    def fit(cls, key: dict[str, str], measured: Sequence[LengthMeasurement]) -> Profile:
        """Fit the model to measurements of at least two lengths above 0 per batch size."""
        drafted = [m for m in measured if m.length and m.accepted > 0]
        g, log_c = np.polyfit([math.log(m.length) for m in drafted], [math.log(m.accepted) for m in drafted], 1)
        c, g = float(math.exp(log_c)), float(min(max(g, 0.0), 1.0))
        fits = tuple(_fit(batch, c, g, measured) for batch in sorted({m.batch for m in measured}))
        return cls(key, c, g, fits, tuple(measured))

    def get_best_length(self, batch: int) -> int:
        """Return the best length of the profiled batch size nearest to `batch`, by ratio."""
        return min(self.fits, key=lambda fit: abs(math.log(fit.batch / batch))).best

    def save(self) -> Path:
        """Store the profile in the cache, where `find_profile` reads it; return the file."""
        file = _get_path(self.key)
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
        partial.replace(file)
        return file


def find_profile(key: dict[str, str]) -> Profile | None:
    """Return the stored profile of this target, drafter and device, or None."""
    file = _get_path(key)
    if not file.exists():
        return None
    stored = json.loads(file.read_text())
    fits = tuple(BatchFit(**fit) for fit in stored["fits"])
    return Profile(
        stored["key"], stored["c"], stored["g"], fits, tuple(LengthMeasurement(**m) for m in stored["measured"])
    )


def load_profile(key: dict[str, str], target: str) -> Profile:
    """Return the stored profile of this `target`, drafter and device. Raises RequestError if there is none."""
    profile = find_profile(key)
    if profile is None:
        raise RequestError(
            "draft_length is 'table' and there is no profile of this target, drafter and device: make one with "
            f"`bassline bench profile --target {target} --drafter {key['drafter']}`"
        )
    return profile


def _fit(batch: int, c: float, g: float, measured: Iterable[LengthMeasurement]) -> BatchFit:
    rounds = [m for m in measured if m.batch == batch]
    slope, verify = np.polyfit([m.length for m in rounds], [m.verify_s for m in rounds], 1)
    step = float(np.median([m.draft_s / m.length for m in rounds if m.length]))
    # More tokens are never cheaper, and the measurement at length 0 is better than the line's value there.
    slope = max(float(slope), 0.0)
    verify = next((m.verify_s for m in rounds if m.length == 0), float(verify))

    def seconds_per_token(length: int) -> float:
        return (verify + (slope + step) * length) / (1 + c * length**g if length else 1)

    longest = max(m.length for m in rounds)
    best = min(range(min(longest, MAX_DRAFT_LENGTH) + 1), key=seconds_per_token)
    return BatchFit(batch, verify, slope, step, best)


def _get_path(key: dict[str, str]) -> Path:
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / "profiles" / f"{name}.json"
