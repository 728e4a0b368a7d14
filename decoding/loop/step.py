"""One round of batched speculative decoding: draft, verify, accept, commit."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from decoding.acceptance.rule import Draw
from decoding.costs import Costs
from decoding.draft_length.policies import DraftLengthPolicy
from decoding.loop.batch import Batch
from decoding.models.device import is_out_of_memory
from decoding.models.loaded import LoadedModel
from decoding.request import BrokenModelError, Origin, Round, Sample, TopTokens
from decoding.state.proposal import Proposal
from decoding.state.request_state import RequestState
from decoding.state.row import Row
from decoding.state.token_text import TokenTexts


class Stopwatch:
    """Takes times: `perf_counter` on a CPU; CUDA events on a GPU, whose work runs behind the host."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._times: list[float] = []
        self._events: list[torch.cuda.Event] = []

    def mark(self) -> None:
        """Take the time at which all work started so far is done."""
        if self._on_gpu:
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record()
            self._events.append(event)
        else:
            self._times.append(time.perf_counter())

    def read_intervals(self) -> list[float]:
        """Return the seconds between successive marks; waits for the last one."""
        if self._on_gpu:
            self._events[-1].synchronize()
            pairs = zip(self._events[:-1], self._events[1:], strict=True)
            return [a.elapsed_time(b) / 1000 for a, b in pairs]
        return [b - a for a, b in zip(self._times[:-1], self._times[1:], strict=True)]


class RoundMemoryError(Exception):
    """Memory has run out in a round. The batch is as it was before."""


_SampleGroups = list[tuple[list[Sample], Draw]]
"""The samples of a row that drew the same tokens, with what they drew; the largest group first."""


@dataclass(frozen=True, slots=True)
class _VerifiedRound:
    """What a round drafted and drew, by its rows: as they were before any of them forked."""

    rows: list[Row]
    reads_prompts: bool
    proposal: Proposal
    draws: list[list[Draw]]  # of each sample of each row
    groups: list[_SampleGroups]  # of each row
    draft_s: float
    verify_s: float


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
        started = time.perf_counter()
        verified = self._draft_and_verify()
        self._record_draws(verified)
        # From here on the batch has the rows that forked, too. What they keep and add is in the order of its rows.
        kept = self._fork_rows(verified.groups)
        added = self._commit(kept)
        seconds = time.perf_counter() - started
        if not verified.reads_prompts:  # the time of a prompt says nothing about other rounds
            self._learn(verified, seconds)
        for state in {row.state: None for row in verified.rows}:
            state.rounds.append(self._describe_round(state, verified, added, seconds))
        return added

    def _draft_and_verify(self) -> _VerifiedRound:
        """Return what each sample draws; nothing is committed. Raises RoundMemoryError."""
        target, drafter = self.batch.target, self.batch.drafter
        rows = list(self.batch.rows)
        n_samples = [len(row.samples) for row in rows]
        watch = Stopwatch(target.device)
        watch.mark()
        n_unread = target.n_unread(rows)
        lengths = self._choose_lengths(rows, n_samples, n_unread)
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
        return _VerifiedRound(rows, any(n_unread), proposal, draws, groups, draft_s, verify_s)

    def _choose_lengths(self, rows: Sequence[Row], n_samples: Sequence[int], n_unread: Sequence[int]) -> list[int]:
        k = self.policy.choose_limit(len(rows), sum(n_samples))
        # A row never drafts past its length limit: the bonus token is the last it may take. A row that reads the rest
        # of its prompt does not draft, so that a request alone reads it in the same shape whatever was learnt before.
        return [0 if unread else min(k, row.n_left - 1) for row, unread in zip(rows, n_unread, strict=True)]

    def _record_draws(self, verified: _VerifiedRound) -> None:
        """Count the round in each sample. Raises BrokenModelError when the target's logits are not numbers."""
        # One NaN or infinity anywhere in a position's logits makes its log-probabilities NaN.
        if any(math.isnan(logprob) for own in verified.draws for draw in own for logprob in draw.logprobs):
            raise BrokenModelError(f"{self.model.name} computed logits that are not numbers: its weights are broken")
        for row, drafted, own in zip(verified.rows, verified.proposal.tokens, verified.draws, strict=True):
            for sample, draw in zip(row.samples, own, strict=True):
                sample.n_rounds += 1
                sample.n_drafted += len(drafted)
                sample.n_accepted += draw.n_accepted

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

    def _commit(self, kept: Sequence[Draw]) -> list[tuple[Origin, ...]]:
        """Let each row of the batch keep what it drew; return the origins of its new tokens."""
        rows = self.batch.rows
        n_accepted = [draw.n_accepted for draw in kept]
        self.batch.target.commit(rows, n_accepted)
        added = [
            row.extend(
                draw.tokens, draw.logprobs, draw.n_accepted, self.model.eos_token_ids, self._collect_top(row, draw)
            )
            for row, draw in zip(rows, kept, strict=True)
        ]
        self.batch.drafter.observe(rows, n_accepted)
        return added

    def _collect_top(self, row: Row, draw: Draw) -> list[TopTokens]:
        texts = TokenTexts.get_for_model(self.model)
        return [texts.name_top_tokens(top[: row.n_top_logprobs]) for top in draw.top] if row.n_top_logprobs else []

    def _learn(self, verified: _VerifiedRound, seconds: float) -> None:
        proposal, n_rows = verified.proposal, len(verified.rows)
        self.policy.observe(proposal, verified.draws)
        n_drafted = [len(tokens) for tokens in proposal.tokens]
        self.costs.observe_round(
            n_rows,
            n_tokens=n_rows + sum(n_drafted),
            longest=1 + max(n_drafted),
            n_steps=proposal.n_steps,
            draft_s=verified.draft_s,
            rest_s=seconds - verified.draft_s,
        )

    def _describe_round(
        self, state: RequestState, verified: _VerifiedRound, added: Sequence[tuple[Origin, ...]], seconds: float
    ) -> Round:
        """Return the record of a request's part of a round of `seconds`; `added` goes with the rows of the batch."""
        mine = [r for r, row in enumerate(verified.rows) if row.state is state]
        tokens, draws = verified.proposal.tokens, verified.draws
        return Round(
            started_s=state.clock.elapsed_s - seconds,
            n_rows=len(mine),
            n_verified=sum(1 + len(tokens[r]) for r in mine),
            n_emitted=sum(
                len(new) * len(row.samples)
                for new, row in zip(added, self.batch.rows, strict=True)
                if row.state is state
            ),
            drafted=tuple(len(tokens[r]) for r in mine for _ in draws[r]),
            accepted=tuple(draw.n_accepted for r in mine for draw in draws[r]),
            draft_s=verified.draft_s,
            verify_s=verified.verify_s,
            other_s=seconds - verified.draft_s - verified.verify_s,
        )


def _group_by_tokens(samples: Sequence[Sample], draws: Sequence[Draw]) -> _SampleGroups:
    groups: dict[tuple[int, ...], tuple[list[Sample], Draw]] = {}
    for sample, draw in zip(samples, draws, strict=True):
        groups.setdefault(draw.tokens, ([], draw))[0].append(sample)
    return sorted(groups.values(), key=lambda group: -len(group[0]))
