"""The target over its cache: one forward scores all rows' proposals, and the acceptance rule draws the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import torch

from decoding.acceptance.rule import AcceptanceRule, Draw, Positions, accept_drafts, build_draws
from decoding.acceptance.sampling import TopIds, compute_top_logprobs, to_distribution, to_distributions
from decoding.attention.runner import ModelRunner
from decoding.attention.verify_graphs import VerifyGraphs
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.memory.cache import RaggedCache
from decoding.memory.layout import build_padded_index
from decoding.request import SamplingParams
from decoding.state.proposal import MODEL_EVIDENCE, Proposal
from decoding.state.row import Row
from kernels.rows import NO_TOKEN
from kernels.upload import upload


class TargetRunner:
    """Verifies proposals, by CUDA graphs if it has some and they work, else by the model's forward."""

    def __init__(self, runner: ModelRunner, rule: AcceptanceRule, graphs: VerifyGraphs | None = None) -> None:
        self.runner = runner
        self._rule = rule
        self.graphs = graphs

    @property
    def device(self) -> torch.device:
        """The device that it runs on."""
        device: torch.device = self.runner.device
        return device

    @property
    def cache(self) -> RaggedCache:
        """The keys and values of all rows."""
        return self.runner.cache

    @property
    def reads_in_rounds(self) -> bool:
        """Whether the rest of a prompt may be left to `verify`: graphs do not support it."""
        return self.graphs is None and self.runner.reads_in_rounds

    def n_unread(self, rows: Sequence[Row]) -> list[int]:
        """Return how many tokens before its pending one each row still has to read: the rest of its prompt, or none."""
        return [len(row.tokens) - 1 - length for row, length in zip(rows, self.cache.lens, strict=True)]

    def commit(self, rows: Sequence[Row], n_accepted: Sequence[int]) -> None:
        """Keep the tokens that the last `verify` read of the rows, and the accepted part of their drafts."""
        ends = zip(rows, n_accepted, self.cache.lens, strict=True)
        self.cache.commit([len(row.tokens) + n - length for row, n, length in ends])

    def fork(self, row_index: int) -> None:
        """Copy a row to a new last row between `verify` and the commit, with the positions that the verify wrote."""
        self.cache.fork(row_index, self.cache.layout.counts[row_index])

    def verify(self, rows: Sequence[Row], proposal: Proposal) -> list[list[Draw]]:
        """Return what each sample of each row draws, in order; the caller commits.

        All log-probabilities of a draw are NaN where logits were not numbers.
        """
        if self.graphs is not None:
            assert all(len(row.samples) == 1 for row in rows)
            draws = self.graphs.verify(
                [row.tokens[-1] for row in rows],
                [row.seeds[0] for row in rows],
                proposal,
                [row.sampling for row in rows],
                [row.n_top_logprobs for row in rows],
            )
            if draws is not None:
                return [[draw] for draw in draws]
        return self._verify_by_forward(rows, proposal.read_device_tokens())

    def _verify_by_forward(self, rows: Sequence[Row], proposal: Proposal) -> list[list[Draw]]:
        """Return what `verify` does, of a proposal whose tokens are all on the host. S samples are on the R rows."""
        drafts = proposal.tokens
        logits, logits_index, position = self._score(rows, drafts)
        n_samples = [len(row.samples) for row in rows]
        row_of_sample = upload([r for r, n in enumerate(n_samples) for _ in range(n)], self.device)  # [S]
        seeds = upload([seed for row in rows for seed in row.seeds], self.device)  # [S]
        dist_row = logits_index[row_of_sample]  # [S, T]
        longest_draft = dist_row.shape[1] - 1
        padded = [draft + [NO_TOKEN] * (longest_draft - len(draft)) for draft in drafts]
        draft = upload(torch.tensor(padded, dtype=torch.int64), self.device)[row_of_sample]  # [S, T - 1]

        p = to_distributions(
            logits, [row.sampling for row, d in zip(rows, drafts, strict=True) for _ in range(1 + len(d))]
        )
        where = Positions(dist_row, position[dist_row] + 1)
        decided = accept_drafts(self._rule.accept, logits, p, where, draft, seeds, proposal.q, scores_kept_only=True)
        top: list[TopIds] = []
        if n_top := max(row.n_top_logprobs for row in rows):
            is_kept = torch.arange(longest_draft + 1, device=self.device) <= decided[:, :1]
            top = compute_top_logprobs(logits, dist_row[is_kept], n_top)
        draws = iter(build_draws(decided.tolist(), top))
        return [list(islice(draws, n)) for n in n_samples]

    def _score(
        self, rows: Sequence[Row], drafts: Sequence[list[int]]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Read what is new of each row and its draft; return the logits [N, V] after the pending and draft tokens.

        Also the index of each row's t-th in them, int64 [R, T], and the position of each in the text of its row,
        int64 [N].
        """
        unread = [row.tokens[length:] for row, length in zip(rows, self.cache.lens, strict=True)]
        tokens = [[*new, *draft] for new, draft in zip(unread, drafts, strict=True)]
        if all(len(new) == 1 for new in unread):
            logits = self.runner.forward(tokens)
            return logits, self.cache.layout.padded_index, self.cache.layout.position
        # Of a prompt's rest only the pending token is followed by a draw.
        counts = [1 + len(draft) for draft in drafts]
        logits = self.runner.forward(tokens, n_last=counts)
        return logits, upload(build_padded_index(counts), self.device), self.cache.layout.find_last_positions(counts)

    def verify_dummy(self, n_tokens: int) -> None:
        """Verify `n_tokens` of dummy rows and wait for the outcome: the work that `VerifyCost` times.

        Takes an empty cache and leaves it empty.
        """
        if self.graphs is None or not self._verify_dummy_in_graphs(self.graphs, n_tokens):
            self._verify_dummy_by_forward(n_tokens)

    def _verify_dummy_in_graphs(self, graphs: VerifyGraphs, n_tokens: int) -> bool:
        """Return whether the graphs work."""
        n_rows = min(-(-n_tokens // 8), self.cache.max_rows)
        n_each = min(-(-n_tokens // n_rows), MAX_DRAFT_LENGTH + 1)
        for row in range(n_rows):
            self.cache.start(row, n_each + 1, 1)
        dummy = Proposal([[0] * (n_each - 1)] * n_rows, [MODEL_EVIDENCE] * n_rows)
        draws = graphs.verify([0] * n_rows, [0] * n_rows, dummy, [SamplingParams()] * n_rows)
        self.cache.clear()
        return draws is not None

    def _verify_dummy_by_forward(self, n_tokens: int) -> None:
        # Recurrent layers take the tokens of a row one after the other, so the dummies are as many as in a batch.
        n_rows = min(-(-n_tokens // 8), self.cache.max_rows) if self.runner.is_recurrent else 1
        counts = [n_tokens // n_rows + (r < n_tokens % n_rows) for r in range(n_rows)]
        for row, n in enumerate(counts):
            self.cache.start(row, 1 + n, 1)
        to_distribution(self.runner.forward([[0] * n for n in counts]), SamplingParams())
        self.cache.clear()
