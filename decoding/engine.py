"""Batched speculative decoding under a wall-clock budget: the loop of BASS (arXiv 2404.15778).

    prefill the prompt once, share it with n rows
    until every sample has ended or the next round would miss the deadline:
        draft    each row proposes up to k tokens
        verify   the target scores all rows' proposals in one forward
        accept   per row, as many tokens as the lossless rule lets stand, and one of the target's own
        commit   each row advances by its own number of tokens

A sample finishes the moment it stops, hits its length or runs out of time; its slot goes to the next one at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import torch
import transformers

from decoding import acceptance
from decoding.acceptance import NO_TOKEN, Positions
from decoding.attention import ATTENTION_NAME
from decoding.batch import Batch
from decoding.clock import Clock
from decoding.config import MAX_DRAFT_LENGTH, EngineConfig, parse_drafter
from decoding.device import device_name
from decoding.draft_length import DraftLength, Outcome, make_policy
from decoding.drafters.base import Drafter, NoDrafter, Proposal
from decoding.drafters.combined import LookupThenModel
from decoding.drafters.lookup import LookupDrafter
from decoding.drafters.model import ModelDrafter
from decoding.goodput import AcceptanceModel
from decoding.memory import peak_memory_bytes
from decoding.models import LoadedModel, check_same_tokenizer, load
from decoding.prepack import prepack
from decoding.request import (
    BrokenModelError,
    Completion,
    OnUpdate,
    Origin,
    Request,
    RequestError,
    Round,
    Sample,
    SamplingParams,
    ShouldCancel,
    Update,
)
from decoding.row import Row
from decoding.runner import ModelRunner
from decoding.sampling import raw_logprobs, shape
from decoding.verify_cost import SIZES, VerifyCost, measure


class Draw(NamedTuple):
    """What one sample takes from a round: `n_accepted` draft tokens and one more, with their log-probabilities."""

    n_accepted: int
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


class Engine:
    """A target, a drafter and the rules between them; decodes one request at a time."""

    def __init__(self, config: EngineConfig, target: LoadedModel, draft: LoadedModel | None) -> None:
        self.config = config
        self.target = target
        self.draft = draft
        # Costs learnt from earlier requests, so that the first round of the next can be predicted.
        self._acceptance = AcceptanceModel()
        self._round_s = 0.0
        self._prefill_s_per_token = 0.0

    @classmethod
    def load(cls, config: EngineConfig, on_progress: Callable[[str], None] | None = None) -> Engine:
        """Return an engine with its models in memory and warmed up. Raises ModelError or RequestError."""
        target = _load(config, config.target, on_progress)
        spec = parse_drafter(config.drafter)
        draft = None
        if spec.model is not None:
            draft = _load(config, spec.model, on_progress)
            check_same_tokenizer(target, draft)
        engine = cls(config, target, draft)
        engine._warm_up()
        return engine

    # What the caller needs to know to write a prompt -----------------------------------------------------------

    @property
    def has_chat_template(self) -> bool:
        """Whether the target was trained to converse."""
        return self.target.has_chat_template

    @property
    def fim_tokens(self) -> tuple[str, str, str] | None:
        """Fill-in-the-middle markers (prefix, suffix, middle) of the target's family, or None."""
        return self.target.fim_tokens

    @property
    def context_length(self) -> int:
        """Tokens the target can look at, prompt and output together."""
        return self.target.context_length

    def provenance(self) -> dict[str, str | int | None]:
        """Return what a figure was measured with: models by hash, device, precision and versions."""
        facts: dict[str, str | int | None] = {
            "target": self.target.name,
            "target_sha256": self.target.sha256,
            "target_parameters": self.target.n_parameters,
            "draft": self.draft.name if self.draft else None,
            "draft_sha256": self.draft.sha256 if self.draft else None,
            "draft_parameters": self.draft.n_parameters if self.draft else None,
            "device": device_name(self.target.device),
            "threads": torch.get_num_threads() if self.target.device.type == "cpu" else None,
            "dtype": str(self.target.dtype).removeprefix("torch."),
            "attention": ATTENTION_NAME,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
        return facts

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a prompt has."""
        return len(self._encode(text))

    def render_chat(self, messages: list[dict[str, str]], reply_prefix: str) -> str:
        """Return the prompt text of a conversation with the reply already begun by `reply_prefix`."""
        text: str = self.target.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return text + reply_prefix

    # Decoding --------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def generate(
        self,
        request: Request,
        on_update: OnUpdate | None = None,
        should_cancel: ShouldCancel | None = None,
    ) -> Completion:
        """Return n samples of a prompt, finished or cut off by the deadline, each with its own clock.

        `on_update` is called after each round with what the round added; `should_cancel` is asked before each.
        Raises RequestError when the prompt does not leave room for one token, BrokenModelError when the logits are
        not numbers.
        """
        clock = Clock(request.budget_s, self._round_s)
        prompt = self._encode(request.prompt)
        batch = self._batch(request, prompt)
        drafter = self._make_drafter()
        policy = self._make_policy()
        target = self._begin(batch, drafter, clock)
        prefill_s = clock.elapsed
        rounds: list[Round] = []

        while batch.rows:
            if should_cancel is not None and should_cancel():
                self._publish(batch.finish_all("cancelled", clock.elapsed), clock, on_update)
                break
            if target is None or not clock.fits(clock.expected_round_s):
                self._publish(batch.finish_all("deadline", clock.elapsed), clock, on_update)
                break
            added, done = self._round(batch, target, drafter, policy, clock)
            rounds.append(done)
            self._publish(batch.rows, clock, on_update, added)
            batch.retire_finished(target, drafter)
            clock.observe_round(clock.elapsed - done.started_s)

        if rounds:
            self._round_s = max(r.draft_s + r.verify_s + r.other_s for r in rounds[-4:])
        else:
            # Believed too dear to begin: doubt the belief, or one bad measurement would refuse for ever.
            self._round_s /= 2
            self._prefill_s_per_token /= 2
        return Completion(
            samples=batch.samples,
            n_prompt_tokens=len(prompt),
            rounds=rounds,
            prefill_s=prefill_s,
            wall_s=clock.elapsed,
            peak_memory_bytes=peak_memory_bytes(self.target.device),
        )

    def _begin(self, batch: Batch, drafter: Drafter, clock: Clock) -> ModelRunner | None:
        """Prefill target and drafter; None when that alone would miss the deadline."""
        n_prefill = len(batch.prompt) - 1
        if not clock.fits(self._prefill_s_per_token * n_prefill):
            return None
        started = clock.elapsed
        capacity = len(batch.prompt) + batch.limit + MAX_DRAFT_LENGTH + 1
        target = ModelRunner(self.target.model, self.target.vocab_size, batch.max_samples, capacity)
        target.prefill(batch.prompt[:-1], len(batch.rows))
        drafter.begin(batch.rows, batch.max_samples, capacity)
        if n_prefill >= 16:
            seen = (clock.elapsed - started) / n_prefill
            self._prefill_s_per_token = min(self._prefill_s_per_token or seen, seen)
        return target

    def _round(
        self, batch: Batch, target: ModelRunner, drafter: Drafter, policy: DraftLength, clock: Clock
    ) -> tuple[list[tuple[Origin, ...]], Round]:
        """Draft, verify, accept and commit once; return each row's new origins and what the round cost."""
        rows = list(batch.rows)
        started = clock.elapsed
        k = policy.next(len(rows))
        # A row never drafts past its length limit: the bonus token is the last it may take.
        proposal = drafter.propose(rows, [min(k, row.limit - row.n_new - 1) for row in rows])
        proposal = proposal.cut(policy.trim(proposal, [len(row.samples) for row in rows]))
        drafted_at = clock.elapsed
        logits = target.forward([[row.tokens[-1], *draft] for row, draft in zip(rows, proposal.tokens, strict=True)])
        verified_at = clock.elapsed

        draws = self._accept(rows, target, proposal, logits)
        now = clock.elapsed
        # Samples that drew the same tokens stay together; the first part keeps the slot, forks come after all slots.
        stay: list[Draw] = []
        part: list[Draw] = []
        for slot, row in enumerate(rows):
            groups = _group(row.samples, draws[slot])
            batch.fork(slot, [samples for samples, _ in groups], target, drafter)
            stay.append(groups[0][1])
            part += [draw for _, draw in groups[1:]]
        taken = stay + part
        target.cache.commit([draw.n_accepted + 1 for draw in taken])
        eos = self.target.eos_token_ids
        added = [
            row.extend(draw.tokens, draw.logprobs, draw.n_accepted, eos, now)
            for row, draw in zip(batch.rows, taken, strict=True)
        ]
        drafter.observe(batch.rows, [draw.n_accepted for draw in taken])

        outcome = Outcome(
            evidence=tuple(e for e, of_row in zip(proposal.evidence, draws, strict=True) for _ in of_row),
            drafted=tuple(len(d) for d, of_row in zip(proposal.tokens, draws, strict=True) for _ in of_row),
            accepted=tuple(draw.n_accepted for of_row in draws for draw in of_row),
            draft_s=drafted_at - started,
        )
        policy.observe(outcome)
        return added, Round(
            started_s=started,
            n_rows=len(rows),
            n_verified=len(logits),
            n_emitted=sum(len(new) * len(row.samples) for new, row in zip(added, batch.rows, strict=True)),
            drafted=outcome.drafted,
            accepted=outcome.accepted,
            draft_s=outcome.draft_s,
            verify_s=verified_at - drafted_at,
            other_s=clock.elapsed - verified_at,
        )

    def _accept(
        self, rows: Sequence[Row], target: ModelRunner, proposal: Proposal, logits: torch.Tensor
    ) -> list[list[Draw]]:
        """Return per row and sample how many draft tokens stand, and the tokens to take."""
        layout, device = target.cache.layout, target.device
        n_samples = [len(row.samples) for row in rows]
        row_of = torch.tensor([r for r, n in enumerate(n_samples) for _ in range(n)], device=device)
        keys = torch.tensor([key for row in rows for key in row.keys], device=device)
        at = layout.gather[row_of]
        where = Positions(at, layout.position[at] + 1)
        k = at.shape[1] - 1
        padded = [d + [NO_TOKEN] * (k - len(d)) for d in proposal.tokens]
        draft = torch.tensor(padded, dtype=torch.int64, device=device)[row_of]

        p = shape(logits, rows[0].request.sampling)
        if self.config.acceptance == "coupled":
            verdict = acceptance.coupled(p, where, draft, keys)
        else:
            verdict = acceptance.maximal(p, where, draft, keys, proposal.q)
        kept = torch.arange(k + 1, device=device) <= verdict.accepted[:, None]
        tokens = verdict.emitted[kept]
        logprobs = raw_logprobs(logits, at[kept], tokens).tolist()
        # One NaN or infinity anywhere in a position's logits makes its log-probabilities NaN.
        if any(math.isnan(logprob) for logprob in logprobs):
            raise BrokenModelError(f"{self.target.name} computed logits that are not numbers: its weights are broken")
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

    @staticmethod
    def _publish(
        rows: Sequence[Row],
        clock: Clock,
        on_update: OnUpdate | None,
        added: Sequence[tuple[Origin, ...]] | None = None,
    ) -> None:
        if on_update is None:
            return
        now = clock.elapsed
        updates = [
            Update(
                index=sample.index,
                text=row.stream.text,
                n_tokens=sample.n_tokens,
                origins=added[slot] if added else (),
                mean_logprob=sample.mean_logprob,
                elapsed_s=now,
                finish_reason=sample.finish_reason,
            )
            for slot, row in enumerate(rows)
            for sample in row.samples
        ]
        on_update(updates)

    def _batch(self, request: Request, prompt: list[int]) -> Batch:
        # Under the maximal rule a draft drawn once for several samples would make these depend on each other.
        shared = self.config.acceptance == "coupled" or self.draft is None
        return Batch(
            request,
            prompt,
            self._limit(prompt, request),
            self.target.tokenizer,
            max_samples=self.config.max_batch,
            shared=shared,
        )

    def _make_drafter(self) -> Drafter:
        spec = parse_drafter(self.config.drafter)
        shared = spec.lookup == "sibling"
        if self.draft is None:
            return LookupDrafter(shared=shared) if spec.lookup else NoDrafter()
        model = ModelDrafter(self.draft, self.target.vocab_size, coupled=self.config.acceptance == "coupled")
        return LookupThenModel(model, shared=shared) if spec.lookup else model

    def _make_policy(self) -> DraftLength:
        return make_policy(
            self.config.draft_length,
            self._acceptance,
            lambda: self.verify_cost,
            drafts_cost_time=self.draft is not None,
        )

    def _encode(self, text: str) -> list[int]:
        tokenizer = self.target.tokenizer
        # A rendered chat already begins with the beginning-of-sequence token; a bare prompt may need it added.
        begun = bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)
        ids: list[int] = tokenizer(text, add_special_tokens=not begun)["input_ids"]
        if not ids:
            raise RequestError("prompt has no tokens: give at least one character the model knows")
        return ids

    def _limit(self, prompt: list[int], request: Request) -> int:
        room = self.target.context_length - len(prompt)
        if room < 1:
            raise RequestError(
                f"prompt is {len(prompt)} tokens long and {self.target.name} can look at "
                f"{self.target.context_length}: shorten it"
            )
        return min(request.max_new_tokens, room)

    @cached_property
    @torch.inference_mode()
    def verify_cost(self) -> VerifyCost:
        """What a verify costs here by its number of tokens; measured once, when the engine is loaded or first asked."""
        longest = min(SIZES[-1], self.target.context_length - 1)
        runner = ModelRunner(self.target.model, self.target.vocab_size, 1, 1 + longest)
        runner.cache.lens = [1]
        sampling = SamplingParams()

        def verify(n_tokens: int) -> None:
            shape(runner.forward([[0] * min(n_tokens, longest)]), sampling)

        return measure(verify)

    def _warm_up(self) -> None:
        """Decode a few tokens, so that the costs of a prefill and of a round are known before they matter."""
        self.generate(Request(prompt="def add(a, b):\n    return a + b\n" * 4, n=2, max_new_tokens=8))


def _load(config: EngineConfig, ref: str, on_progress: Callable[[str], None] | None) -> LoadedModel:
    """Load a model with our attention and, on a CPU, reordered weights."""
    loaded = load(ref, config.dtype, config.device, on_progress, attention=ATTENTION_NAME)
    prepack(loaded.model)
    return loaded


def _group(samples: Sequence[Sample], draws: Sequence[Draw]) -> list[tuple[list[Sample], Draw]]:
    """Put samples that drew the same tokens together, largest group first."""
    groups: dict[tuple[int, ...], tuple[list[Sample], Draw]] = {}
    for sample, draw in zip(samples, draws, strict=True):
        groups.setdefault(draw.tokens, ([], draw))[0].append(sample)
    return sorted(groups.values(), key=lambda group: -len(group[0]))
