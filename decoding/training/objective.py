"""What a head is trained for: the target's distributions, over several steps of its own drafting.

EAGLE-3 (arXiv 2503.01840, section 3.2) calls this training-time test. In step 0 the head reads the target's features,
in step j its own output of step j - 1 instead, as it does while drafting. So at index t, step j predicts the
token at t + 2 + j from true features up to t and j outputs of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from decoding.models.eagle3 import Eagle3
from decoding.training.documents import DocumentBatch

N_STEPS = 3
_STEP_WEIGHT = 0.8
"""The weight of a step relative to the step before, as in SpecForge."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step over a batch: the mean divergence from the target, in nats, and how many of `n` top tokens agree.

    The divergence is over the `n_known` positions whose token the head can propose.
    """

    divergence: torch.Tensor
    n_matched: int
    n_known: int
    n: int


class Objective:
    """The loss of a head, given the embedding and the output layer's rows [n_drafted, H] of its target."""

    def __init__(self, head: Eagle3, embedding: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor) -> None:
        self._head = head
        self._embedding = embedding
        self._rows = rows
        is_known = torch.zeros(int(head.shape.layer.vocab_size), dtype=torch.bool, device=rows.device)
        is_known[head.token_ids] = True
        self._is_known = is_known

    def loss(self, steps: list[Step]) -> torch.Tensor:
        """Return the weighted divergence of all steps."""
        return torch.stack([_STEP_WEIGHT**j * step.divergence for j, step in enumerate(steps)]).sum()

    def steps(self, batch: DocumentBatch) -> list[Step]:
        """Return the steps of the head over a batch, with gradients if they are enabled."""
        head, batch = self._head, batch.to(self._rows.device)
        B, T = batch.tokens.shape
        N = T - 1  # pairs
        with torch.no_grad():
            target = F.linear(batch.outputs[batch.known].to(self._rows.dtype), self._rows).float().log_softmax(dim=-1)
            index = torch.full((B, T), -1, device=target.device)
            index[batch.known] = torch.arange(len(target), device=target.device)
        features = head.features(batch.taps[:, :N].reshape(B * N, -1).to(self._rows.dtype))
        keys: list[torch.Tensor] = []
        values: list[torch.Tensor] = []
        steps = []
        place = torch.arange(N, device=target.device)
        causal = place[None, :] <= place[:, None]
        diagonal = torch.eye(N, dtype=torch.bool, device=target.device)
        for j in range(N_STEPS):
            shifted = F.pad(batch.tokens[:, 1 + j :], (0, j))
            embedded = self._embedding(shifted.flatten()).to(features.dtype)
            cos, sin = head.rotary((place + j).repeat(B))
            residual, heads = head.heads(embedded, features, cos.to(features.dtype), sin.to(features.dtype))
            q, k, v = (part.view(B, N, -1, part.shape[-1]).transpose(1, 2) for part in heads)
            keys.append(k)
            values.append(v)
            mask = torch.cat([causal, *[diagonal] * j], dim=1)
            attended = F.scaled_dot_product_attention(
                q, torch.cat(keys, dim=2), torch.cat(values, dim=2), attn_mask=mask, enable_gqa=True
            )
            output = head.finish(residual, attended.transpose(1, 2).reshape(B * N, -1))
            wanted = F.pad(index[:, 1 + j :], (0, j), value=-1).flatten()  # whose distribution each pair predicts
            following = F.pad(batch.tokens[:, 2 + j :], (0, j + 1)).flatten()
            at = ((wanted >= 0) & self._is_known[following])[: B * N].nonzero()[:, 0]
            n_all = int((wanted >= 0).sum())
            steps.append(self._step(head.logits(output[at]), target[wanted[at]], n_all))
            features = head.next_features(output)
        return steps

    @staticmethod
    def _step(logits: torch.Tensor, target: torch.Tensor, n_all: int) -> Step:
        ours = logits.float().log_softmax(dim=-1)
        divergence = (target.exp() * (target - ours)).sum(dim=-1).mean()
        n_matched = int((ours.argmax(dim=-1) == target.argmax(dim=-1)).sum())
        return Step(divergence, n_matched, len(logits), n_all)
