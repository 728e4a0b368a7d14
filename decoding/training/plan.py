"""What one training does, written down before it begins and as it is decided, so that it can be interrupted."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decoding.models import registry
from decoding.models.progress import format_bytes
from decoding.request import RequestError
from kernels.cache import cache_folder


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of a training, and what was decided on the way: `n_shards` and `n_steps`, None before.

    `weights` are the target's while it writes the text, decided before the first shard.

    Give `hours` for as much as fits into them, or `tokens` and `epochs` for at least that much; the other is None.
    """

    target: str
    target_sha256: str
    taps: tuple[int, ...]
    hours: float | None
    tokens: int | None
    epochs: int | None
    seed: int
    max_bytes: int
    n_shards: int | None = None
    n_steps: int | None = None
    weights: str = "dense"


class WorkFolder:
    """The folder of a training: its plan, shards and checkpoint, from its first step to its end."""

    def __init__(self, target: str) -> None:
        self.path = cache_folder() / "training" / registry.resolve(target).slug
        self._plan_path = self.path / "plan.json"

    @property
    def shards(self) -> Path:
        """The folder of the training data."""
        return self.path / "shards"

    @property
    def checkpoint(self) -> Path:
        """The file from which the training of the head resumes."""
        return self.path / "checkpoint.pt"

    def open(self, wanted: Plan) -> Plan:
        """Return the plan of a training that was interrupted, or begin `wanted`.

        Raises RequestError if the interrupted one has other options, or if the disk has no room for a new one.
        """
        found = self.read_plan()
        if found is not None:
            differing = [name for name in _OPTIONS if getattr(found, name) != getattr(wanted, name)]
            if differing:
                was = ", ".join(f"{name} {getattr(found, name)}" for name in differing)
                raise RequestError(
                    f"a training of {wanted.target} was interrupted that had {was}: give the same options to resume"
                    " it, or --restart to start over"
                )
            return found
        self.path.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.path).free
        if free < wanted.max_bytes:
            raise RequestError(
                f"the training data may take {format_bytes(wanted.max_bytes)}, and {format_bytes(free)} are free in"
                f" {self.path}: give a smaller --max-disk"
            )
        self.write_plan(wanted)
        return wanted

    def read_plan(self) -> Plan | None:
        """Return the plan of a training that has begun and not ended."""
        try:
            raw: dict[str, Any] = json.loads(self._plan_path.read_text(encoding="utf-8"))
            return Plan(**{**raw, "taps": tuple(raw["taps"])})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RequestError(f"{self._plan_path} is damaged: give --restart to start over") from error

    def write_plan(self, plan: Plan) -> None:
        """Write the plan, whole or not at all."""
        partial = self._plan_path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(plan), indent=2), encoding="utf-8")
        partial.replace(self._plan_path)

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.path, ignore_errors=True)


_OPTIONS = ("target_sha256", "taps", "hours", "tokens", "epochs", "seed", "max_bytes")
