"""One round of batched speculative decoding: draft, verify, accept, commit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import torch

from decoding import acceptance
from decoding.acceptance import NO_TOKEN, Positions
from decoding.batch import Batch
from decoding.clock import Clock
from decoding.draft_length import DraftLength, Outcome
from decoding.drafters.base import Drafter, Proposal
from decoding.models import LoadedModel
from decoding.request import BrokenModelError, Origin, Round, Sample
from decoding.row import Row
from decoding.runner import ModelRunner
from decoding.sampling import raw_logprobs, shape


class Draw(NamedTuple):
    """What one sample takes from a round: `n_accepted` draft tokens and one more, with their log-probabilities."""

    n_accepted: int
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(slots=True)
class Decoding:
    """A request under way: its batch, the target and drafter over their caches, the policy and the acceptance rule."""

    batch: Batch
    model: LoadedModel
    target: ModelRunner
    drafter: Drafter
    policy: DraftLength
    acceptance: str

    def round(self, clock: Clock) -> tuple[list[tuple[Origin, ...]], Round]:
        """Draft, verify, accept and commit once; return each row's new origins and what the round cost."""
        rows = list(self.batch.rows)
        started = clock.elapsed
        k = self.policy.next(len(rows), sum(len(row.samples) for row in rows))
        # A row never drafts past its length limit: the bonus token is the last it may take.
        proposal = self.drafter.propose(rows, [min(k, row.limit - row.n_new - 1) for row in rows])
        proposal = proposal.cut(self.policy.trim(proposal, [len(row.samples) for row in rows]))
        drafted_at = clock.elapsed
        logits = self.target.forward(
            [[row.tokens[-1], *draft] for row, draft in zip(rows, proposal.tokens, strict=True)]
        )
        verified_at = clock.elapsed

        draws = self._accept(rows, proposal, logits)
        now = clock.elapsed
        # Samples that drew the same tokens stay together; the first part keeps the slot, forks come after all slots.
        stay: list[Draw] = []
        part: list[Draw] = []
        for slot, row in enumerate(rows):
            groups = _group(row.samples, draws[slot])
            self.batch.fork(slot, [samples for samples, _ in groups], self.target, self.drafter)
            stay.append(groups[0][1])
            part += [draw for _, draw in groups[1:]]
        taken = stay + part
        self.target.cache.commit([draw.n_accepted + 1 for draw in taken])
        eos = self.model.eos_token_ids
        added = [
            row.extend(draw.tokens, draw.logprobs, draw.n_accepted, eos, now)
            for row, draw in zip(self.batch.rows, taken, strict=True)
        ]
        self.drafter.observe(self.batch.rows, [draw.n_accepted for draw in taken])

        outcome = Outcome(
            evidence=tuple(e for e, of_row in zip(proposal.evidence, draws, strict=True) for _ in of_row),
            drafted=tuple(len(d) for d, of_row in zip(proposal.tokens, draws, strict=True) for _ in of_row),
            accepted=tuple(draw.n_accepted for of_row in draws for draw in of_row),
            draft_s=drafted_at - started,
        )
        self.policy.observe(outcome)
        return added, Round(
            started_s=started,
            n_rows=len(rows),
            n_verified=len(logits),
            n_emitted=sum(len(new) * len(row.samples) for new, row in zip(added, self.batch.rows, strict=True)),
            drafted=outcome.drafted,
            accepted=outcome.accepted,
            draft_s=outcome.draft_s,
            verify_s=verified_at - drafted_at,
            other_s=clock.elapsed - verified_at,
        )

    def _accept(self, rows: Sequence[Row], proposal: Proposal, logits: torch.Tensor) -> list[list[Draw]]:
        """Return per row and sample how many draft tokens stand, and the tokens to take."""
        layout, device = self.target.cache.layout, self.target.device
        n_samples = [len(row.samples) for row in rows]
        row_of = torch.tensor([r for r, n in enumerate(n_samples) for _ in range(n)], device=device)
        keys = torch.tensor([key for row in rows for key in row.keys], device=device)
        at = layout.gather[row_of]
        where = Positions(at, layout.position[at] + 1)
        k = at.shape[1] - 1
        padded = [d + [NO_TOKEN] * (k - len(d)) for d in proposal.tokens]
        draft = torch.tensor(padded, dtype=torch.int64, device=device)[row_of]

        p = shape(logits, rows[0].request.sampling)
        if self.acceptance == "coupled":
            verdict = acceptance.coupled(p, where, draft, keys)
        else:
            verdict = acceptance.maximal(p, where, draft, keys, proposal.q)
        kept = torch.arange(k + 1, device=device) <= verdict.accepted[:, None]
        tokens = verdict.emitted[kept]
        logprobs = raw_logprobs(logits, at[kept], tokens).tolist()
        # One NaN or infinity anywhere in a position's logits makes its log-probabilities NaN.
        if any(math.isnan(logprob) for logprob in logprobs):
            raise BrokenModelError(f"{self.model.name} computed logits that are not numbers: its weights are broken")
        flat = zip(tokens.tolist(), logprobs, strict=True)
        draws = []
        for n_accepted in verdict.accepted.tolist():
            pairs = list(islice(flat, n_accepted + 1))
            draws.append(Draw(n_accepted, tuple(t for t, _ in pairs), tuple(x for _, x in pairs)))
        remaining = iter(draws)
        for sample, draw in zip((s for row in rows for s in row.samples), draws, strict=True):
            sample.n_rounds += 1
            sample.n_accepted += draw.n_accepted
        for row, drafted in zip(rows, proposal.tokens, strict=True):
            for sample in row.samples:
                sample.n_drafted += len(drafted)
        return [list(islice(remaining, n)) for n in n_samples]


def _group(samples: Sequence[Sample], draws: Sequence[Draw]) -> list[tuple[list[Sample], Draw]]:
    """Put samples that drew the same tokens together, largest group first."""
    groups: dict[tuple[int, ...], tuple[list[Sample], Draw]] = {}
    for sample, draw in zip(samples, draws, strict=True):
        groups.setdefault(draw.tokens, ([], draw))[0].append(sample)
    return sorted(groups.values(), key=lambda group: -len(group[0]))
