"""A trained drafter's pass as a CUDA graph: reads the target's states, then draws all tokens of a block."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.rule import AcceptanceRule
from decoding.acceptance.sampling import KINDS, Kind, draft_distribution, draft_kind, limits_of
from decoding.attention.block_runner import BlockRunner
from decoding.attention.draft_graphs import IDLE
from decoding.attention.graphs import Graphs, Work, bucket_rows, draw_tokens, rectangle, row_buckets
from decoding.request import SamplingParams
from decoding.state.proposal import MODEL_EVIDENCE, PENDING, Proposal

# The positions that a pass may read: a round commits at most its draft and one more.
_READ = (2, 4, 8)


class BlockGraphs(Graphs[BlockRunner]):
    """A whole pass as one graph; the drafts stay on the device. Without `uses_kernel` PyTorch makes the draws."""

    most_read = _READ[-1]

    def __init__(self, runner: BlockRunner, rule: AcceptanceRule, *, uses_kernel: bool = True) -> None:
        super().__init__(runner)
        self._role = rule.draft_role
        self._needs_q = rule.needs_q
        self._uses_kernel = uses_kernel

    def prepare(self, max_rows: int) -> None:
        """Capture the passes of up to `max_rows` rows, for every kind of distribution, before a clock runs."""
        for R in row_buckets(max_rows):
            for kind in KINDS:
                for T in _READ:
                    self._pass(R, T, kind, {"read": [1] * R, "limits": [IDLE] * R})

    def propose(
        self,
        pending: Sequence[int],
        unread: Sequence[int],
        lengths: Sequence[int],
        seeds: Sequence[int],
        sampling: Sequence[SamplingParams],
    ) -> Proposal | None:
        """Return `lengths[r]` tokens per row after `pending[r]`, left on the device; None when graphs do not work here.

        Commits the `unread[r]` positions that it reads, at least one of a row with a length.
        """
        n, k = len(pending), max(lengths)
        R, kind = bucket_rows(n), draft_kind(sampling)
        idle = R - n
        T = next(size for size in _READ if max(unread) <= size)
        # A row that does not draft takes part with a position that is never committed.
        values = {
            "pending": [*pending, *[0] * idle],
            "read": [*(max(count, 1) for count in unread), *[1] * idle],
            "length": [*self.runner.cache.lens, *[0] * idle],
            "seeds": [*seeds, *[0] * idle],
            "limits": [*map(limits_of, sampling), *[IDLE] * idle],
        }
        out = self._pass(R, T, kind, values)
        if out is None:
            return None
        self.runner.cache.commit(unread)
        tokens, *dist = (t[:n, :k].clone() for t in out)
        q = Distribution(*(t.flatten(0, 1) for t in dist)) if dist else None
        return Proposal([[PENDING] * length for length in lengths], [MODEL_EVIDENCE] * n, q, tokens, n_steps=1)

    def _pass(self, R: int, T: int, kind: Kind, values: dict[str, object]) -> tuple[torch.Tensor, ...] | None:
        """Return the tokens drawn [R, K], and where the acceptance rule needs them ids and logp, [R, K, C] each."""

        def make() -> Work:
            inputs = self.buffers(pending=(R,), read=(R,), length=(R,), seeds=(R,))
            inputs["limits"] = torch.ones(R, 4, device=self.runner.device)
            return Work(inputs, lambda: self._compute(inputs, T, kind))

        return self.replay((R, T, kind), make, values)

    def _compute(self, inputs: dict[str, torch.Tensor], T: int, kind: Kind) -> tuple[torch.Tensor, ...]:
        runner, head = self.runner, self.runner.head
        pending, read, length = inputs["pending"], inputs["read"], inputs["length"]
        R, B = len(pending), head.shape.block
        row = torch.arange(R, device=pending.device)
        layout = rectangle(R, T, length)
        runner.cache.use(layout)
        features = runner.keep(layout, runner.features_at(layout.slot, layout.position))[row * T + read - 1]
        end = length + read
        layout = rectangle(R, B, end)
        runner.cache.use(layout)
        states = runner.block(pending, features, layout, end + B - 1)
        base = head.logits(states)
        before, tokens, dists = pending, [], []
        for step in range(head.n_proposed):
            logits = head.chained(base[:, step], states[:, step], runner.embedded(before))
            dist = runner.target_ids(draft_distribution(logits, kind, inputs["limits"]))
            drawn = draw_tokens(dist, inputs["seeds"], end + 1 + step, self._role, by_kernel=self._uses_kernel)
            before = drawn[:, 0]
            tokens.append(drawn)
            dists.append(dist)
        drafts = torch.cat(tokens, dim=1)
        if not self._needs_q:
            return (drafts,)
        return drafts, torch.stack([d.ids for d in dists], dim=1), torch.stack([d.logp for d in dists], dim=1)
