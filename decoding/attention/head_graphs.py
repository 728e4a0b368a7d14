"""A trained drafter's steps as CUDA graphs: the first reads the target's states, each further one its own output."""

from __future__ import annotations

import torch

from decoding.acceptance.distribution import Distribution
from decoding.attention.draft_graphs import StepGraphs
from decoding.attention.graphs import rectangle
from decoding.attention.head_runner import HeadRunner


class HeadGraphs(StepGraphs[HeadRunner]):
    """The steps of a head. A first step reads what a round commits, at most its draft and one more token."""

    carried = ("features",)
    first_feeds = (2, 4, 8)
    ahead = 1  # slot t of a head's cache holds the pair whose output predicts the token at t + 2

    def make_inputs(self, R: int, T: int) -> dict[str, torch.Tensor]:
        """Return the buffers of a step; a later step also reads the features that its predecessor made."""
        inputs = super().make_inputs(R, T)
        return inputs if T > 1 else inputs | {"features": self.runner.blank_features(R)}

    def compute(self, inputs: dict[str, torch.Tensor], keep: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the head's logits, and the features of the next step [R, H]."""
        runner, layout = self.runner, rectangle(inputs["ids"], inputs["length"])
        runner.cache.use(layout)
        features = inputs["features"] if "features" in inputs else runner.features_at(layout.slot, layout.position)
        output = runner.outputs(inputs["ids"].flatten(), features, layout, keep)
        return runner.head.logits(output), runner.head.next_features(output)

    def target_ids(self, dist: Distribution) -> Distribution:
        """Return a distribution over the head's tokens as one over the target's."""
        return self.runner.target_ids(dist)
