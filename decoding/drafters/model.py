"""Drafts from a smaller model with the target's token ids, over a ragged cache of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from decoding.acceptance.noise import Role
from decoding.acceptance.sampling import Distribution, shape
from decoding.attention.graphs import FIRST_FEED, DraftGraphs
from decoding.attention.runner import Ahead, ModelRunner
from decoding.drafters.base import MODEL_EVIDENCE, PENDING, Proposal
from decoding.state.row import Row


class ModelDrafter:
    """Runs the draft model k times per round.

    Under coupled acceptance the draft is drawn with the target's noise (`Role.SAMPLE`), under the maximal rule with a
    stream of its own.
    """

    def __init__(self, runner: ModelRunner, graphs: DraftGraphs | None = None, *, coupled: bool) -> None:
        self._runner = runner
        self._graphs = graphs
        self._role = Role.SAMPLE if coupled else Role.DRAFT
        self._base: list[int] = []

    def start(self, slot: int, row: Row, source: int | None) -> Iterator[Ahead]:
        """Prefill the prompt, but for its pending last token."""
        return self._runner.start(slot, row.tokens[:-1], row.active.capacity, source)

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Draw up to `lengths[r]` tokens per row, one step of the draft model for each.

        The first step also feeds what the draft model has not seen: the pending token, and after full acceptance its
        own last draft too; after rounds in which others drafted, all of these rounds' tokens.
        """
        runner, cache = self._runner, self._runner.cache
        drafts: list[list[int]] = [[] for _ in rows]
        steps: list[tuple[list[int], Distribution]] = []
        # A row's samples share its draft, which is drawn with the noise of the first.
        keys = torch.tensor([row.keys[0] for row in rows], device=runner.device)
        self._base = [len(row.tokens) for row in rows]
        evidence = [MODEL_EVIDENCE] * len(rows)
        if not any(lengths):
            return Proposal(drafts, evidence)
        if self._graphs is not None and (drawn := self._draw_in_graph(self._graphs, rows, lengths)) is not None:
            return drawn
        for step in range(max(lengths)):
            active = [r for r, k in enumerate(lengths) if k > step]
            feed: list[list[int]] = [[] for _ in rows]
            for r in active:
                feed[r] = rows[r].tokens[cache.lens[r] :] + drafts[r][-1:]
            logits = runner.forward(feed, last_only=True)[active]
            cache.commit([len(tokens) for tokens in feed])
            q = shape(logits, rows[0].active.request.sampling)
            positions = torch.tensor([cache.lens[r] for r in active], device=runner.device)
            chosen = q.sample(keys[active], positions, self._role).tolist()
            for r, token in zip(active, chosen, strict=True):
                drafts[r].append(token)
            steps.append((active, q))
        return Proposal(drafts, evidence, _stack(steps, drafts, runner.device))

    def _draw_in_graph(self, graphs: DraftGraphs, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal | None:
        """Draw the same in one CUDA graph, and leave the tokens on the device; None when graphs do not work here."""
        runner, cache = self._runner, self._runner.cache
        unseen = [row.tokens[length:] for row, length in zip(rows, cache.lens, strict=True)]
        # What a graph does not take in, after rounds in which others drafted, is fed before it.
        behind = [u[:-1] if k and len(u) > FIRST_FEED else [] for u, k in zip(unseen, lengths, strict=True)]
        if any(behind):
            runner.forward(behind, last_only=True)
            cache.commit([len(tokens) for tokens in behind])
        # A row that does not draft takes part with a token that is never committed.
        feed = [u[len(b) :] if k else [0] for u, b, k in zip(unseen, behind, lengths, strict=True)]
        k = max(lengths)
        keys = [row.keys[0] for row in rows]
        drawn = graphs.draft(feed, keys, k, rows[0].active.request.sampling)
        if drawn is None:
            return None
        cache.commit([len(tokens) + k - 1 if wanted else 0 for tokens, wanted in zip(feed, lengths, strict=True)])
        tokens = [[PENDING] * wanted for wanted in lengths]
        return Proposal(tokens, [MODEL_EVIDENCE] * len(rows), drawn[1], drawn[0])

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Forget the rejected drafts: the cache keeps what the row's text confirms."""
        cache = self._runner.cache
        for slot, (base, n) in enumerate(zip(self._base, accepted, strict=True)):
            cache.rewind(slot, base + n)

    def fork(self, slot: int, row: Row) -> None:
        """Copy the slot's cache."""
        self._runner.cache.fork(slot)
        self._base.append(self._base[slot])

    def drop(self, slot: int) -> None:
        """Move the last row's cache into the slot."""
        self._runner.cache.drop(slot)


def _stack(steps: list[tuple[list[int], Distribution]], drafts: list[list[int]], device: torch.device) -> Distribution:
    """Join per-step distributions into [R * k, C]; rows that drafted less are padded with no mass."""
    k = len(steps)
    width = max(q.width for _, q in steps)
    ids = torch.full((len(drafts), k, width), -1, device=device)
    logp = torch.full((len(drafts), k, width), float("-inf"), device=device)
    ids -= torch.arange(width, device=device)
    for step, (active, q) in enumerate(steps):
        ids[active, step, : q.width] = q.ids
        logp[active, step, : q.width] = q.logp
    return Distribution(ids.flatten(0, 1), logp.flatten(0, 1))
