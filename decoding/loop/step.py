"""One round of batched speculative decoding: draft, verify, accept, commit."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from decoding.acceptance.rule import Draw
from decoding.costs.costs import Costs
from decoding.draft_length.policies import DraftLengthPolicy
from decoding.loop.batch import Batch
from decoding.loop.timing import Stopwatch
from decoding.models.device_memory import is_out_of_memory
from decoding.models.loaded import LoadedModel
from decoding.request import BrokenModelError, Origin, Round, Sample, TopTokens
from decoding.state.proposal import Proposal
from decoding.state.row import Row
from decoding.state.token_text import TokenTexts


class RoundMemoryError(Exception):
    """Memory has run out in a round. The batch is as it was before."""


_SampleGroups = list[tuple[list[Sample], Draw]]
"""The samples of a row that drew the same tokens, with what they drew; the largest group first."""


@dataclass(slots=True)
class Decoder:
    """Takes a batch from round to round, with the draft lengths that a policy chooses."""

    batch: Batch
    model: LoadedModel
    policy: DraftLengthPolicy
    costs: Costs

    def step(self) -> list[tuple[Origin, ...]]:
        """Draft, verify, accept and commit once; return the origins of each row's new tokens.

        Appends a `Round` to each request. Raises BrokenModelError when the target's logits are not numbers, and
        RoundMemoryError.
        """
        batch, target, drafter = self.batch, self.batch.target, self.batch.drafter
        rows = list(batch.rows)
        n_samples = [len(row.samples) for row in rows]
        started = time.perf_counter()
        watch = Stopwatch(target.device)
        watch.mark()
        k = self.policy.choose_limit(len(rows), sum(n_samples))
        unread = target.n_unread(rows)
        # A row never drafts past its length limit: the bonus token is the last it may take. A row that reads the rest
        # of its prompt does not draft, so that a request alone reads it in the same shape whatever was learnt before.
        lengths = [0 if n else min(k, row.n_left - 1) for row, n in zip(rows, unread, strict=True)]
        try:
            proposal = drafter.propose(rows, lengths)
            proposal = proposal.truncate(self.policy.choose_verify_lengths(proposal, n_samples))
            watch.mark()
            draws = target.verify(rows, proposal)
            watch.mark()
            groups = [_group_by_tokens(row.samples, own) for row, own in zip(rows, draws, strict=True)]
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            drafter.observe(rows, [0] * len(rows))  # which forgets the drafts
            raise RoundMemoryError from error
        draft_s, verify_s = watch.read_intervals()
        self._record_draws(rows, proposal, draws)
        taken = self._fork_rows(groups)
        target.commit(batch.rows, [draw.n_accepted for draw in taken])
        added = [
            row.extend(
                draw.tokens, draw.logprobs, draw.n_accepted, self.model.eos_token_ids, self._collect_top(row, draw)
            )
            for row, draw in zip(batch.rows, taken, strict=True)
        ]
        drafter.observe(batch.rows, [draw.n_accepted for draw in taken])
        seconds = time.perf_counter() - started
        if not any(unread):  # the time of a prompt says nothing about other rounds
            self.policy.observe(proposal, draws)
            drafted = [len(tokens) for tokens in proposal.tokens]
            self.costs.observe_round(
                len(rows), len(rows) + sum(drafted), 1 + max(drafted), proposal.n_steps, draft_s, seconds - draft_s
            )
        for state in batch.requests:
            mine = [r for r, row in enumerate(rows) if row.state is state]
            state.rounds.append(
                Round(
                    started_s=state.clock.elapsed_s - seconds,
                    n_rows=len(mine),
                    n_verified=sum(1 + len(proposal.tokens[r]) for r in mine),
                    n_emitted=sum(
                        len(new) * len(row.samples)
                        for new, row in zip(added, batch.rows, strict=True)
                        if row.state is state
                    ),
                    drafted=tuple(len(proposal.tokens[r]) for r in mine for _ in draws[r]),
                    accepted=tuple(draw.n_accepted for r in mine for draw in draws[r]),
                    draft_s=draft_s,
                    verify_s=verify_s,
                    other_s=seconds - draft_s - verify_s,
                )
            )
        return added

    def _record_draws(self, rows: Sequence[Row], proposal: Proposal, draws: Sequence[Sequence[Draw]]) -> None:
        """Count the round in each sample. Raises BrokenModelError when the target's logits are not numbers."""
        # One NaN or infinity anywhere in a position's logits makes its log-probabilities NaN.
        if any(math.isnan(logprob) for own in draws for draw in own for logprob in draw.logprobs):
            raise BrokenModelError(f"{self.model.name} computed logits that are not numbers: its weights are broken")
        for row, drafted, own in zip(rows, proposal.tokens, draws, strict=True):
            for sample, draw in zip(row.samples, own, strict=True):
                sample.n_rounds += 1
                sample.n_drafted += len(drafted)
                sample.n_accepted += draw.n_accepted

    def _collect_top(self, row: Row, draw: Draw) -> list[TopTokens]:
        """Return the top tokens at each sampled position, as many as the row's request asks for."""
        texts = TokenTexts.get_for_model(self.model)
        return [texts.name_top_tokens(top[: row.n_top_logprobs]) for top in draw.top] if row.n_top_logprobs else []

    def _fork_rows(self, groups: Sequence[_SampleGroups]) -> list[Draw]:
        """Keep samples that drew the same tokens in one row; return the draw of each row of the batch after that."""
        kept: list[Draw] = []
        forked: list[Draw] = []
        for row_index, own in enumerate(groups):
            self.batch.fork(row_index, [samples for samples, _ in own])
            # The first part stays, and forks come after all rows.
            kept.append(own[0][1])
            forked += [draw for _, draw in own[1:]]
        return kept + forked


def _group_by_tokens(samples: Sequence[Sample], draws: Sequence[Draw]) -> _SampleGroups:
    """Put samples that drew the same tokens together."""
    groups: dict[tuple[int, ...], tuple[list[Sample], Draw]] = {}
    for sample, draw in zip(samples, draws, strict=True):
        groups.setdefault(draw.tokens, ([], draw))[0].append(sample)
    return sorted(groups.values(), key=lambda group: -len(group[0]))
