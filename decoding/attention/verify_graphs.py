"""The verify as CUDA graphs: the target's forward over all rows' proposals, and the acceptance behind it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.rule import AcceptanceRule, Draw, Positions, accept_drafts, build_draws
from decoding.acceptance.sampling import compute_top_logprobs, to_distributions, to_distributions_nosync
from decoding.attention.graphs import Graphs, GraphWork, forward, list_row_buckets, round_up_rows, round_up_tokens
from decoding.attention.runner import ModelRunner
from decoding.request import SamplingParams
from decoding.state.proposal import ON_DEVICE, Proposal
from kernels.rows import NO_TOKEN
from kernels.upload import upload


class _Scored(NamedTuple):
    """What the graph of R rows of T tokens returns: logits, and the inputs to which the acceptance belongs."""

    logits: torch.Tensor  # [R * T, V], after each token
    tokens: torch.Tensor  # int64 [R, T], the pending token and the draft
    length: torch.Tensor  # int64 [R], committed before them
    seeds: torch.Tensor  # int64 [R]
    drafted: torch.Tensor  # int64 [R], the tokens of each draft


class VerifyGraphs(Graphs[ModelRunner]):
    """The target's forward as a graph per shape, one sample to a row.

    The acceptance is a few dozen kernels, which the host starts while the forward runs. It stays outside the graph, so
    it may depend on the requests' sampling parameters and one graph serves every request. Without `uses_kernel`
    PyTorch computes it.
    """

    def __init__(self, runner: ModelRunner, rule: AcceptanceRule, *, uses_kernel: bool = True) -> None:
        super().__init__(runner)
        self._needs_q = rule.needs_q
        self._accept = rule.accept_in_kernel if uses_kernel else rule.accept

    def list_shapes(self, max_rows: int, longest_draft: int) -> list[tuple[int, int]]:
        """Return rows and tokens per row of each forward."""
        sizes = sorted({round_up_tokens(n) for n in range(1, longest_draft + 2)}, reverse=True)
        return [(R, T) for R in list_row_buckets(max_rows) for T in sizes]

    def capture(self, shape: tuple[int, int]) -> None:
        """Capture the forward of a shape."""
        self._forward(*shape, {})

    def verify(
        self,
        last: Sequence[int],
        seeds: Sequence[int],
        proposal: Proposal,
        sampling: Sequence[SamplingParams],
        n_top: Sequence[int] = (),
    ) -> list[Draw] | None:
        """Return the draw of each row after its pending token `last[r]`; None when graphs do not work here.

        `n_top[r]` asks for so many top tokens at each token that a row draws.
        """
        scored = self._score(last, seeds, proposal)
        if scored is None:
            return None
        n, k = len(last), max(map(len, proposal.tokens))
        R, T = scored.tokens.shape
        q = None
        if self._needs_q and k and proposal.q is not None:
            q = _pad_distribution(proposal.q, n, k, R, T - 1)
        by_row = [*sampling, *[sampling[0]] * (R - n)]
        by_token = [params for params in by_row for _ in range(T)]
        p, is_complete = to_distributions_nosync(scored.logits, by_token)
        decided = self._decide(p, is_complete, q, scored)[:n].tolist()
        if not all(is_enough for is_enough, *_ in decided):
            # Some nucleus was wider than the search: decide again on the same logits, with a search of any width.
            p = to_distributions(scored.logits, by_token)
            decided = self._decide(p, torch.ones_like(is_complete), q, scored)[:n].tolist()
        draws = build_draws([values for _, *values in decided])
        return _attach_top(draws, n_top, scored.logits, T) if any(n_top) else draws

    def score(self, last: Sequence[int], proposal: Proposal) -> torch.Tensor | None:
        """Return the logits [n, T, V] after each pending token and draft; None when graphs do not work here."""
        scored = self._score(last, [0] * len(last), proposal)
        return None if scored is None else scored.logits.view(*scored.tokens.shape, -1)[: len(last)]

    def _score(self, last: Sequence[int], seeds: Sequence[int], proposal: Proposal) -> _Scored | None:
        drafted = [len(tokens) for tokens in proposal.tokens]
        n, k = len(last), max(drafted)
        R, T = round_up_rows(n), round_up_tokens(k + 1)
        lens = self.runner.cache.lens
        self.runner.cache.prepare([1 + n_drafted for n_drafted in drafted])
        idle = [0] * (R - n)
        tokens = [
            [pending, *draft, *[0] * (T - 1 - len(draft))] for pending, draft in zip(last, proposal.tokens, strict=True)
        ]
        values: dict[str, Any] = {
            "tokens": tokens + [[0] * T] * len(idle),
            "length": [*lens, *idle],
            "seeds": [*seeds, *idle],
            "drafted": [*drafted, *idle],
        }
        if proposal.device_tokens is not None:
            values["device_tokens"] = proposal.device_tokens[:n, :k]
        return self._forward(R, T, values)

    def _forward(self, R: int, T: int, values: dict[str, Any]) -> _Scored | None:
        """Replay the forward of R rows of T tokens on `values`; None when graphs do not work here."""

        def make() -> GraphWork:
            inputs = self.buffers(
                tokens=(R, T), length=(R,), seeds=(R,), drafted=(R,), device_tokens=(R, max(T - 1, 1))
            )

            def run() -> _Scored:
                tokens = inputs["tokens"].clone()
                is_on_device = tokens[:, 1:] == ON_DEVICE
                tokens[:, 1:] = torch.where(is_on_device, inputs["device_tokens"][:, : T - 1], tokens[:, 1:])
                logits = self.keep(forward(self.runner, tokens, inputs["length"]))
                return _Scored(logits, tokens, inputs["length"], inputs["seeds"], inputs["drafted"])

            return GraphWork(inputs, run)

        outputs = self.replay((R, T), make, values)
        return None if outputs is None else _Scored(*outputs)

    def _decide(
        self,
        p: Distribution,
        is_complete: torch.Tensor,  # bool [R * T], where p is complete
        q: Distribution | None,
        scored: _Scored,
    ) -> torch.Tensor:
        """Return float64 [R, 2 + 2 T]: whether p was complete to the last token, then what `accept_drafts` returns."""
        R, T = scored.tokens.shape
        step = torch.arange(T, device=scored.tokens.device)
        dist_row = torch.arange(R * T, device=scored.tokens.device).view(R, T)
        where = Positions(dist_row, scored.length[:, None] + step + 1)
        draft = scored.tokens[:, 1:].masked_fill(step[1:] > scored.drafted[:, None], NO_TOKEN)
        decided = accept_drafts(self._accept, scored.logits, p, where, draft, scored.seeds, q, scores_kept_only=False)
        is_enough = (is_complete.view(R, T) | (step > decided[:, :1])).all(dim=1)
        return torch.cat([is_enough[:, None].double(), decided], dim=1)


def _attach_top(draws: Sequence[Draw], n_top: Sequence[int], logits: torch.Tensor, T: int) -> list[Draw]:
    """Return the draws of rows of T positions of `logits`, with the top tokens of the rows that ask for some."""
    logits_index = [
        r * T + t for r, (draw, n) in enumerate(zip(draws, n_top, strict=True)) if n for t in range(len(draw.tokens))
    ]
    tops = iter(compute_top_logprobs(logits, upload(logits_index, logits.device), max(n_top)))
    return [
        draw._replace(top=tuple(islice(tops, len(draw.tokens)))) if n else draw
        for draw, n in zip(draws, n_top, strict=True)
    ]


def _pad_distribution(q: Distribution, n: int, k: int, R: int, steps: int) -> Distribution:
    """Return `q` [n * k, C] for R rows of `steps` steps, without mass where there was no draft."""
    space = (0, 0, 0, steps - k, 0, R - n)
    ids, logp = q.ids.view(n, k, -1), q.logp.view(n, k, -1)
    return Distribution(
        F.pad(ids, space, value=-1).flatten(0, 1), F.pad(logp, space, value=float("-inf")).flatten(0, 1)
    )
