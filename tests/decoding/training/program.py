"""A training of a tiny model as a process, to be killed: FOLDER holds the model, the Python files and the cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from decoding.models import fetch
from decoding.training import trainer
from decoding.training.collection import Asking, Rendered
from decoding.training.drafter import DrafterTraining
from decoding.training.plan import Plan
from decoding.training.statements import statements

TASK = "def planted(amount, rate):\n    '''Return what a loan of this amount costs in ten years at that rate.'''"


class Quiet:
    """Watches without a word."""

    def stage(self, name: str, total: float) -> None: ...

    def advance(self, done: float, facts: str) -> None: ...

    def should_stop(self) -> bool:
        return False


def training(folder: Path, watcher: object = None, **changes: object) -> DrafterTraining:
    """The training of the model in a folder."""
    model = str(folder / "model")
    options = {"hours": None, "tokens": 30_000, "epochs": 3, "seed": 0, "max_bytes": 2**28, **changes}
    plan = Plan(model, fetch.ensure(model).sha256, (0, 1, 1), **options)  # type: ignore[arg-type]
    return DrafterTraining(
        plan,
        lambda: statements([folder / "python"], 0),
        lambda _target: Asking(lambda statement: Rendered(statement.text, ())),
        [TASK],
        watcher or Quiet(),  # type: ignore[arg-type]
    )


def main() -> None:
    """Train to the end, with a checkpoint after every step."""
    torch.set_num_threads(1)
    trainer.CHECKPOINT_EVERY_S = 0.0
    folder = Path(sys.argv[1])
    os.environ["BASSLINE_CACHE_DIR"] = str(folder / "cache")
    training(folder).run()


if __name__ == "__main__":
    main()
