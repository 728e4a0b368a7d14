"""Fits a head to the collected text: AdamW over shuffled batches, checkpoints on the way, the best weights at the end.

The state after a step depends on the seed and the number of the step alone. So a training that was killed resumes from
its last checkpoint and ends with the weights that it would have had.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from decoding.models.device import pick_dtype
from decoding.models.dflash import DFlash
from decoding.training.documents import DocumentBatch, Documents
from decoding.training.objective import Objective

LEARNING_RATE = 1e-3
_BETAS = (0.9, 0.95)
_WARM_UP = 0.05
"""The share of the steps in which the learning rate rises; then it falls to zero along a cosine."""
_LARGEST_GRADIENT = 0.5
EVALUATIONS = 20
PATIENCE = 5
"""The evaluations of a training, and after how many without a better one it ends."""
CHECKPOINT_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How good a head was on held-out text after some steps.

    `match[j]` is the share of blocks whose top token was right at position j, given the text before it;
    `divergence` is the divergence of position 0 from the target, in nats; `loss` the training's since the evaluation
    before.
    """

    step: int
    loss: float | None
    divergence: float
    match: list[float]

    @property
    def expected_length(self) -> float:
        """The tokens of a round that drafts a whole block, the target's own included, at temperature 0."""
        return 1 + sum(math.prod(self.match[: j + 1]) for j in range(len(self.match)))


@dataclass
class Trainer:
    """Trains `head` for `n_steps` steps; `checkpoint` is the file from which it can resume."""

    head: DFlash
    objective: Objective
    documents: Documents
    n_steps: int
    checkpoint: Path
    seed: int = 0
    on_step: Callable[[int], object] = field(default=lambda _step: None)
    should_stop: Callable[[], bool] = field(default=lambda: False)

    def __post_init__(self) -> None:
        self.head.train().requires_grad_(True)
        self._optimizer = torch.optim.AdamW(self.head.parameters(), LEARNING_RATE, _BETAS, weight_decay=0.0)
        self.step = 0
        self.seconds = 0.0
        self.curve: list[Evaluation] = []
        self._best: dict[str, torch.Tensor] = {}
        self._losses: list[float] = []
        self._dtype = pick_dtype("auto", self.head.fc.weight.device)
        if self.checkpoint.is_file():
            self._restore(torch.load(self.checkpoint, weights_only=True))

    def run(self) -> bool:
        """Train to the end and put the best weights into the head; return False if it was stopped before.

        Stopped or not, the steps so far are in the checkpoint.
        """
        if not self.curve:
            self._evaluate()
        saved = started = time.monotonic()
        before = self.seconds
        every = max(1, self.n_steps // EVALUATIONS)
        batches = self._iterate_batches()
        while self.step < self.n_steps and not self._is_stuck():
            if self.should_stop():
                self._save()
                return False
            self._update(next(batches))
            self.step += 1
            self.seconds = before + time.monotonic() - started
            self.on_step(self.step)
            if self.step % every == 0 or self.step == self.n_steps:
                self._evaluate()
            if time.monotonic() - saved >= CHECKPOINT_EVERY_S:
                self._save()
                saved = time.monotonic()
        self._save()
        self.head.load_state_dict(self._best)
        self.head.eval().requires_grad_(False)
        return True

    def time_steps(self, n_steps: int) -> float:
        """Take some steps, which change the head, and return their seconds: only to plan a training."""
        batches = self._iterate_batches()
        self._update(next(batches))  # the first includes its setup
        started = time.monotonic()
        for _ in range(n_steps):
            self._update(next(batches))
        return time.monotonic() - started

    @property
    def best(self) -> Evaluation:
        """The evaluation with the longest drafts."""
        return max(self.curve, key=lambda one: one.expected_length)

    def _is_stuck(self) -> bool:
        return len(self.curve) - 1 - self.curve.index(self.best) >= PATIENCE

    def _iterate_batches(self) -> Iterator[DocumentBatch]:
        done, epoch = self.step, 0
        while True:
            for batch in self.documents.epoch(self.seed, epoch):
                if done:
                    done -= 1
                else:
                    yield batch
            epoch += 1

    def _update(self, batch: DocumentBatch) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = LEARNING_RATE * self._compute_learning_rate_factor()
        with self._choose_precision():
            loss = self.objective.loss(self.objective.compute_positions(batch, self.step))
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.head.parameters(), _LARGEST_GRADIENT)
        self._optimizer.step()
        self._losses.append(loss.item())

    def _compute_learning_rate_factor(self) -> float:
        done = self.step / self.n_steps
        return min(1.0, (self.step + 1) / max(1.0, _WARM_UP * self.n_steps)) * (1 + math.cos(math.pi * done)) / 2

    @torch.no_grad()
    def _evaluate(self) -> None:
        K = self.head.n_proposed
        matched, total = [0] * K, [0] * K
        divergence, n_known = 0.0, 0
        for batch in self.documents.held_out_batches():
            with self._choose_precision():
                positions = self.objective.compute_positions(batch)
            divergence += float(positions[0].divergence) * positions[0].n_known
            n_known += positions[0].n_known
            for j, position in enumerate(positions):
                matched[j] += position.n_matched
                total[j] += position.n
        match = [m / max(n, 1) for m, n in zip(matched, total, strict=True)]
        loss = sum(self._losses) / len(self._losses) if self._losses else None
        self.curve.append(Evaluation(self.step, loss, divergence / max(n_known, 1), match))
        self._losses.clear()
        if self.best is self.curve[-1]:
            self._best = {name: tensor.detach().clone() for name, tensor in self.head.state_dict().items()}

    def _choose_precision(self) -> Any:
        device = self.head.fc.weight.device.type
        return torch.autocast(device, self._dtype, enabled=self._dtype != torch.float32)

    def _save(self) -> None:
        partial = self.checkpoint.with_suffix(".partial")
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "head": self.head.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "best": self._best,
            "losses": self._losses,
            "curve": [asdict(one) for one in self.curve],
        }
        torch.save(state, partial)
        partial.replace(self.checkpoint)

    def _restore(self, state: dict[str, Any]) -> None:
        self.step, self.seconds = state["step"], state["seconds"]
        self.head.load_state_dict(state["head"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._best = state["best"]
        self._losses = state["losses"]
        self.curve = [Evaluation(**one) for one in state["curve"]]
