"""What a head is trained for: the target's distributions at every position of a block, for many blocks at once.

Every second position of a text is the last token of a block, as if the target had read no further; the blocks of a
text do not see each other. The Markov head reads the text's own token before each position, because a draft counts
only as far as it equals the text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from decoding.models.blocks import QKV
from decoding.models.dflash import DFlash
from decoding.training.documents import DocumentBatch

_STRIDE = 2
_POSITION_WEIGHT = 0.8
"""The weight of a position of a block relative to the position before: later tokens count less often."""


@dataclass(frozen=True, slots=True)
class BlockPosition:
    """One position of the blocks: the mean divergence from the target, in nats, and how many of `n` top tokens agree.

    `doubt` is the cross entropy between the predicted chance to be accepted and the overlap of the two distributions.
    Both means are over the `n_known` positions whose token the head can propose.
    """

    divergence: torch.Tensor
    doubt: torch.Tensor
    n_matched: int
    n_known: int
    n: int


class Objective:
    """The loss of a head, given the embedding and the output layer's rows [n_drafted, H] of its target."""

    def __init__(self, head: DFlash, embedding: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor) -> None:
        self._head = head
        self._embedding = embedding
        self._rows = rows
        is_known = torch.zeros(int(head.shape.layer.vocab_size), dtype=torch.bool, device=rows.device)
        is_known[head.token_ids] = True
        self._is_known = is_known
        self._mask = embedding(torch.tensor([head.shape.mask_token], device=rows.device))[0]

    def loss(self, positions: list[BlockPosition]) -> torch.Tensor:
        """Return the weighted sum of all divergences and doubts."""
        losses = [_POSITION_WEIGHT**j * (each.divergence + each.doubt) for j, each in enumerate(positions)]
        return torch.stack(losses).sum()

    def compute_positions(self, batch: DocumentBatch, phase: int = 0) -> list[BlockPosition]:
        """Return the positions of the blocks of a batch, with gradients if they are enabled.

        `phase` chooses which positions of the texts are last tokens: every second from it on.
        """
        head, batch = self._head, batch.to(self._rows.device)
        T, K = batch.tokens.shape[1], head.n_proposed
        with torch.no_grad():
            target = F.linear(batch.outputs[batch.known].to(self._rows.dtype), self._rows).float().log_softmax(dim=-1)
            index = torch.full(batch.known.shape, -1, device=target.device)
            index[batch.known] = torch.arange(len(target), device=target.device)
        # The head reads the states of the position before the last token, so there is none at 0.
        place = torch.arange(T, device=target.device)
        text, anchor = (batch.known & (place > 0) & (place % _STRIDE == phase % _STRIDE)).nonzero(as_tuple=True)
        states = self._compute_states(batch, text, anchor)
        at = anchor[:, None] + torch.arange(K, device=anchor.device)  # the tokens before the positions, [M, K]
        wanted = F.pad(index, (0, K), value=-1)[text[:, None], at]
        tokens = F.pad(batch.tokens, (0, K + 1))
        is_trained = (wanted >= 0) & self._is_known[tokens[text[:, None], at + 1]]
        before = self._embedding(tokens[text[:, None], at][is_trained]).to(states.dtype)
        logits = head.add_markov_logits(head.logits(states[is_trained]), states[is_trained], before)
        position = torch.arange(K, device=anchor.device).expand_as(at)[is_trained]
        # It learns from the states, and they do not learn from it.
        chances = head.confidence(states.detach()[is_trained])
        return self._compare(logits, chances, target[wanted[is_trained]], position, (wanted >= 0).sum(dim=0).tolist())

    def _compute_states(self, batch: DocumentBatch, text: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
        """The states of the masks [M, K, H] of blocks whose last tokens are at `anchor` [M] of the texts `text` [M]."""
        head = self._head
        n_texts, T = batch.tokens.shape
        P = head.shape.block
        features = head.features(batch.taps.flatten(0, 1).to(self._rows.dtype))
        place = torch.arange(T, device=anchor.device)
        cos, sin = (part.to(features.dtype) for part in head.rotary(place.repeat(n_texts)))
        context = head.context(features, cos, sin)
        embedded = self._embedding(batch.tokens[text, anchor]).to(features.dtype)
        x = head.inputs(embedded, features.view(n_texts, T, -1)[text, anchor - 1], self._mask.to(features.dtype))
        positions = (anchor[:, None] + torch.arange(P, device=anchor.device)).flatten()
        cos, sin = (part.to(features.dtype) for part in head.rotary(positions))
        for i, read in enumerate(context):
            qkv = head.compute_qkv(i, x, cos, sin)
            attended = torch.empty_like(qkv.queries.flatten(1))
            for t in range(n_texts):
                here = text == t
                rows = here.repeat_interleave(P)
                own = QKV(*(part[rows].view(-1, P, *part.shape[1:]) for part in qkv))
                keys, values = (part.view(n_texts, T, *part.shape[1:])[t] for part in read[1:])
                attended[rows] = _attend(own, keys, values, place < anchor[here, None]).flatten(0, 1)
            x = head.finish(i, x, attended)
        return head.outputs(x)

    def _compare(
        self,
        logits: torch.Tensor,
        chances: torch.Tensor | None,
        target: torch.Tensor,
        position: torch.Tensor,
        n_all: list[int],
    ) -> list[BlockPosition]:
        """The positions of the blocks, given logits, chances and the target's log-probabilities [N, n_drafted] of all.

        `position` [N] is each one's in its block.
        """
        ours = logits.float().log_softmax(dim=-1)
        divergence = (target.exp() * (target - ours)).sum(dim=-1)
        doubt = torch.zeros_like(divergence)
        if chances is not None:
            overlap = torch.minimum(ours.detach(), target).exp().sum(dim=-1)
            chances = chances.clamp(1e-4, 1 - 1e-4)
            doubt = -(overlap * chances.log() + (1 - overlap) * (1 - chances).log())
        is_matched = ours.argmax(dim=-1) == target.argmax(dim=-1)
        positions = []
        for j, n in enumerate(n_all):
            here = position == j
            n_known = int(here.sum())
            mean = [each[here].sum() / max(n_known, 1) for each in (divergence, doubt)]
            positions.append(BlockPosition(mean[0], mean[1], int(is_matched[here].sum()), n_known, n))
        return positions


def _attend(own: QKV, keys: torch.Tensor, values: torch.Tensor, is_read: torch.Tensor) -> torch.Tensor:
    """Return what M blocks of P positions attend to, [M, P, Hq * D]: the text as far as it is read, and their own.

    `own` has [M, P, heads, D] each, `keys` and `values` [T, Hkv, D], `is_read` bool [M, T].
    """
    M, P, n_queries, D = own.queries.shape
    T, n_kv = keys.shape[:2]
    queries = own.queries.view(M, P, n_kv, n_queries // n_kv, D)
    read = torch.einsum("mpkgd,tkd->mpkgt", queries, keys).masked_fill(~is_read[:, None, None, None], float("-inf"))
    scores = torch.cat([read, torch.einsum("mpkgd,mjkd->mpkgj", queries, own.keys)], dim=-1) * D**-0.5
    weights = scores.float().softmax(dim=-1).to(values.dtype)
    attended = torch.einsum("mpkgt,tkd->mpkgd", weights[..., :T], values)
    attended = attended + torch.einsum("mpkgj,mjkd->mpkgd", weights[..., T:], own.values)
    return attended.flatten(2)
