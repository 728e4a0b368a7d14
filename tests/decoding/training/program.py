"""A small training of a tiny model, and the same in a process that dies. FOLDER holds the model and Python files."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

import torch

from decoding.models import fetch
from decoding.training import collection, documents, measure, trainer
from decoding.training.collection import PromptBuilder, RenderedPrompt
from decoding.training.drafter import DrafterTraining
from decoding.training.plan import Plan
from decoding.training.statements import generate_statements

TASK = "def planted(amount, rate):\n    '''Return what a loan of this amount costs in ten years at that rate.'''"


SMALL = ((collection, "N_STATEMENTS", 16), (collection, "N_INVENTED", 4), (collection, "LONGEST_PROMPT", 128))
SMALL += ((collection, "LONGEST_ANSWER", 48), (documents, "BATCH_TOKENS", 512), (measure, "LONGEST", 16))


def training(
    folder: Path,
    report: Callable[[int, int, str], object] = lambda *_: None,
    should_stop: Callable[[], bool] = lambda: False,
    **changes: object,
) -> DrafterTraining:
    """The training of the model in a folder."""
    model = str(folder / "model")
    options = {"hours": None, "tokens": 1_700, "epochs": 2, "seed": 0, "max_bytes": 2**28, **changes}
    plan = Plan(model, fetch.ensure(model).sha256, (0, 1, 1), **options)  # type: ignore[arg-type]
    return DrafterTraining(
        plan,
        lambda: generate_statements([folder / "python"], 0),
        lambda _target: PromptBuilder(lambda statement: RenderedPrompt(statement.text, ())),
        [TASK],
        report,
        should_stop,
    )


def train_until(folder: Path, n_reports: int | None) -> None:
    """Train with a checkpoint after every step, to the end or until the process dies at its n-th report."""
    torch.set_num_threads(1)
    trainer.CHECKPOINT_EVERY_S = 0.0
    for module, name, value in SMALL:
        setattr(module, name, value)
    os.environ["BASSLINE_CACHE_DIR"] = str(folder / "cache")
    left = iter(range(n_reports - 1)) if n_reports else count()

    def die_at_the_last(*_: object) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    training(folder, die_at_the_last).run()
