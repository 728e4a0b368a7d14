"""One round of batched speculative decoding: draft, verify, accept, commit."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import torch

from decoding.acceptance import rules
from decoding.acceptance.rules import NO_TOKEN, Positions
from decoding.acceptance.sampling import raw_logprobs, shape
from decoding.attention.graphs import VerifyGraphs
from decoding.draft_length.policies import DraftLength, Outcome
from decoding.drafters.base import Proposal
from decoding.loop.batch import Batch
from decoding.loop.timing import Stopwatch
from decoding.models.loaded import LoadedModel
from decoding.request import BrokenModelError, Origin, Round, Sample
from decoding.state.row import Row


class Draw(NamedTuple):
    """What one sample takes from a round: `n_accepted` draft tokens and one more, with their log-probabilities."""

    n_accepted: int
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(slots=True)
class Decoding:
    """What rounds are made of: the batch with its model and drafter, the policy and the acceptance rule."""

    batch: Batch
    model: LoadedModel
    policy: DraftLength
    acceptance: str
    graphs: VerifyGraphs | None = None

    def round(self) -> list[tuple[Origin, ...]]:
        """Draft, verify, accept and commit once, noted in each request; return each row's new origins."""
        batch, target, drafter = self.batch, self.batch.target, self.batch.drafter
        rows = list(batch.rows)
        n_samples = [len(row.samples) for row in rows]
        started = time.perf_counter()
        watch = Stopwatch(target.device)
        watch.mark()
        k = self.policy.next(len(rows), sum(n_samples))
        # A row never drafts past its length limit: the bonus token is the last it may take.
        proposal = drafter.propose(rows, [min(k, row.n_left - 1) for row in rows])
        proposal = proposal.cut(self.policy.trim(proposal, n_samples))
        watch.mark()
        draws = None if self.graphs is None else self._verify_in_graph(self.graphs, rows, proposal)
        if draws is None:
            proposal = proposal.settled()
            logits = target.forward([[r.tokens[-1], *draft] for r, draft in zip(rows, proposal.tokens, strict=True)])
            watch.mark()
            draws = self._accept(rows, proposal, logits)
        else:
            watch.mark()
        draft_s, verify_s = watch.seconds()
        # Samples that drew the same tokens stay together; the first part keeps the slot, forks come after all slots.
        stay: list[Draw] = []
        part: list[Draw] = []
        for slot, row in enumerate(rows):
            groups = _group(row.samples, draws[slot])
            batch.fork(slot, [samples for samples, _ in groups])
            stay.append(groups[0][1])
            part += [draw for _, draw in groups[1:]]
        taken = stay + part
        target.cache.commit([draw.n_accepted + 1 for draw in taken])
        added = [
            row.extend(draw.tokens, draw.logprobs, draw.n_accepted, self.model.eos_token_ids)
            for row, draw in zip(batch.rows, taken, strict=True)
        ]
        drafter.observe(batch.rows, [draw.n_accepted for draw in taken])
        ended = time.perf_counter()
        drafted, accepted = _by_sample(range(len(rows)), proposal, draws)
        evidence = tuple(e for e, own in zip(proposal.evidence, draws, strict=True) for _ in own)
        counts = tuple(1 + len(tokens) for tokens in proposal.tokens)
        self.policy.observe(Outcome(evidence, drafted, accepted, counts, draft_s, ended - started - draft_s))
        for active in batch.active:
            mine = [r for r, row in enumerate(rows) if row.active is active]
            drafted, accepted = _by_sample(mine, proposal, draws)
            active.rounds.append(
                Round(
                    started_s=active.clock.elapsed - (ended - started),
                    n_rows=len(mine),
                    n_verified=sum(counts[r] for r in mine),
                    n_emitted=sum(
                        len(new) * len(row.samples)
                        for new, row in zip(added, batch.rows, strict=True)
                        if row.active is active
                    ),
                    drafted=drafted,
                    accepted=accepted,
                    draft_s=draft_s,
                    verify_s=verify_s,
                    other_s=ended - started - draft_s - verify_s,
                )
            )
        return added

    def _verify_in_graph(
        self, graphs: VerifyGraphs, rows: Sequence[Row], proposal: Proposal
    ) -> list[list[Draw]] | None:
        """Verify by a CUDA graph and accept behind it, read once; None when graphs do not work here."""
        assert all(len(row.samples) == 1 for row in rows)
        outcome = graphs.verify(
            [row.tokens[-1] for row in rows],
            [row.keys[0] for row in rows],
            proposal,
            rows[0].active.request.sampling,
        )
        if outcome is None:
            return None
        draws = [
            Draw(n, tuple(tokens), tuple(logprobs))
            for n, tokens, logprobs in zip(outcome.accepted, outcome.tokens, outcome.logprobs, strict=True)
        ]
        self._note(rows, proposal, draws)
        return [[draw] for draw in draws]

    def _accept(self, rows: Sequence[Row], proposal: Proposal, logits: torch.Tensor) -> list[list[Draw]]:
        """Return per row and sample how many draft tokens stand, and the tokens to take."""
        layout, device = self.batch.target.cache.layout, self.batch.target.device
        n_samples = [len(row.samples) for row in rows]
        row_of = torch.tensor([r for r, n in enumerate(n_samples) for _ in range(n)], device=device)
        keys = torch.tensor([key for row in rows for key in row.keys], device=device)
        at = layout.gather[row_of]
        where = Positions(at, layout.position[at] + 1)
        k = at.shape[1] - 1
        padded = [d + [NO_TOKEN] * (k - len(d)) for d in proposal.tokens]
        draft = torch.tensor(padded, dtype=torch.int64, device=device)[row_of]

        p = shape(logits, rows[0].active.request.sampling)
        if self.acceptance == "coupled":
            verdict = rules.coupled(p, where, draft, keys)
        else:
            verdict = rules.maximal(p, where, draft, keys, proposal.q)
        kept = torch.arange(k + 1, device=device) <= verdict.accepted[:, None]
        tokens = verdict.emitted[kept]
        logprobs = raw_logprobs(logits, at[kept], tokens).tolist()
        flat = zip(tokens.tolist(), logprobs, strict=True)
        draws = []
        for n_accepted in verdict.accepted.tolist():
            pairs = list(islice(flat, n_accepted + 1))
            draws.append(Draw(n_accepted, tuple(t for t, _ in pairs), tuple(x for _, x in pairs)))
        self._note(rows, proposal, draws)
        remaining = iter(draws)
        return [list(islice(remaining, n)) for n in n_samples]

    def _note(self, rows: Sequence[Row], proposal: Proposal, draws: Sequence[Draw]) -> None:
        """Count each sample's round. Raises BrokenModelError when the target's logits are no numbers."""
        # One NaN or infinity anywhere in a position's logits makes its log-probabilities NaN.
        if any(math.isnan(logprob) for draw in draws for logprob in draw.logprobs):
            raise BrokenModelError(f"{self.model.name} computed logits that are not numbers: its weights are broken")
        for sample, draw in zip((s for row in rows for s in row.samples), draws, strict=True):
            sample.n_rounds += 1
            sample.n_accepted += draw.n_accepted
        for row, drafted in zip(rows, proposal.tokens, strict=True):
            for sample in row.samples:
                sample.n_drafted += len(drafted)


def _group(samples: Sequence[Sample], draws: Sequence[Draw]) -> list[tuple[list[Sample], Draw]]:
    """Put samples that drew the same tokens together, largest group first."""
    groups: dict[tuple[int, ...], tuple[list[Sample], Draw]] = {}
    for sample, draw in zip(samples, draws, strict=True):
        groups.setdefault(draw.tokens, ([], draw))[0].append(sample)
    return sorted(groups.values(), key=lambda group: -len(group[0]))


def _by_sample(
    of: Sequence[int], proposal: Proposal, draws: Sequence[Sequence[Draw]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return, sample by sample of the rows in `of`, the draft tokens verified and those that stood."""
    drafted = tuple(len(proposal.tokens[r]) for r in of for _ in draws[r])
    return drafted, tuple(draw.n_accepted for r in of for draw in draws[r])
