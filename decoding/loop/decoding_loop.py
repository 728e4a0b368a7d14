"""All batches of an engine: each takes runners and makes a policy; what they teach is kept for the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

import torch

from decoding.acceptance.rule import AcceptanceRule
from decoding.attention.runner_pool import RunnerPool, Runners
from decoding.config import EngineConfig, parse_draft_length
from decoding.costs import Costs
from decoding.draft_length.goodput import AcceptanceModel
from decoding.draft_length.policies import BassLength, DraftLengthPolicy, FixedLength, GoodputLength, TableLength
from decoding.draft_length.profiles import Profile
from decoding.drafters.lookup import AnswerIndex
from decoding.drafters.registry import make_drafter, parse_drafter
from decoding.loop.admission import SampleLengthModel
from decoding.loop.batch import Batch
from decoding.loop.intake import EarliestDeadlineIntake, InOrderIntake, Intake
from decoding.loop.scheduler import Outcome, Scheduler
from decoding.loop.step import Decoder
from decoding.models.loaded import LoadedModel
from decoding.models.weight_formats import use_threads_for
from decoding.request import OnBatchUpdate, Request, ShouldCancelRequest


class DecodingLoop:
    """Decodes requests in batches. Acceptance, lengths of samples and answers are learnt from all of them."""

    def __init__(
        self,
        config: EngineConfig,
        target: LoadedModel,
        rule: AcceptanceRule,
        pool: RunnerPool,
        costs: Costs,
        *,
        tokens_per_step: int,
        load_profile: Callable[[], Profile],
    ) -> None:
        """`tokens_per_step` are what a step of the draft model or head proposes; `load_profile` may raise."""
        self._target = target
        self._rule = rule
        self._pool = pool
        self._costs = costs
        self._draft_length = config.draft_length
        self._drafter = parse_drafter(config.drafter)
        self._load_profile = load_profile
        self._lengths = SampleLengthModel()
        self._answers = AnswerIndex()
        self.acceptance = AcceptanceModel(tokens_per_step)

    @torch.inference_mode()
    def decode(
        self,
        requests: Iterable[Request | None],
        max_samples: int,
        on_update: OnBatchUpdate | None,
        should_cancel: ShouldCancelRequest | None,
        *,
        as_they_arrive: bool = False,
    ) -> Iterator[Outcome]:
        """Yield (position, outcome) of requests, of which each is taken when the others leave room for it.

        With `as_they_arrive` they are asked for before each round; None says that there is none now.
        """
        _ = self._costs.round_cost  # measured before the clock of a request starts
        policy = self._make_policy()
        weights = self._target.weights
        with ExitStack() as stack:
            with use_threads_for(weights):
                runners = stack.enter_context(self._pool.acquire(max_samples))
            decoder = Decoder(self._make_batch(runners, max_samples, policy), self._target, policy, self._costs)
            scheduler = Scheduler(decoder, runners, self._costs, self._lengths, on_update, should_cancel)
            intake: Intake
            if as_they_arrive:
                intake = EarliestDeadlineIntake(requests, self._target, scheduler.make_admission())
            else:
                has_place, fits = scheduler.has_free_place, scheduler.fits_beside_others
                intake = InOrderIntake(filter(None, requests), self._target, has_place, fits)
            outcomes = scheduler.run(intake)
            while True:
                # Not around the whole batch: the caller does work of its own between two outcomes.
                with use_threads_for(weights):
                    outcome = next(outcomes, None)
                if outcome is None:
                    return
                yield outcome

    def _make_policy(self) -> DraftLengthPolicy:
        match self._draft_length:
            case "goodput":
                return GoodputLength(self.acceptance, self._costs.round_cost, looks_up=self._drafter.looks_up)
            case "bass":
                return BassLength()
            case "table":
                return TableLength(self._load_profile())
            case fixed:
                return FixedLength(parse_draft_length(fixed) or 0)

    def _make_batch(self, runners: Runners, max_samples: int, policy: DraftLengthPolicy) -> Batch:
        drafter = make_drafter(self._drafter, runners.draft, self._answers, policy.choose_model_lengths)
        shares_rows = runners.shares_rows and (self._rule.allows_shared_drafts or not drafter.draws_tokens)
        return Batch(
            self._target, runners.target, drafter, runners.memory, max_samples=max_samples, shares_rows=shares_rows
        )
