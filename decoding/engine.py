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

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
import transformers

from decoding.attention import ATTENTION_NAME
from decoding.batch import Batch
from decoding.clock import Clock
from decoding.config import MAX_DRAFT_LENGTH, EngineConfig, parse_draft_length, parse_drafter
from decoding.device import device_name
from decoding.draft_length import BassLength, DraftLength, FixedLength, GoodputLength, TableLength
from decoding.drafters.base import Drafter, NoDrafter
from decoding.drafters.combined import LookupThenModel
from decoding.drafters.lookup import LookupDrafter
from decoding.drafters.model import ModelDrafter
from decoding.goodput import AcceptanceModel
from decoding.memory import peak_memory_bytes
from decoding.models import LoadedModel, check_same_tokenizer, load
from decoding.prepack import prepack
from decoding.profile import Profile, find
from decoding.request import (
    Completion,
    OnUpdate,
    Origin,
    Request,
    RequestError,
    Round,
    SamplingParams,
    ShouldCancel,
    Update,
)
from decoding.round import Decoding
from decoding.row import Row
from decoding.runner import ModelRunner
from decoding.sampling import shape
from decoding.verify_cost import SIZES, VerifyCost, measure


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
        self._token_texts: dict[int, str] = {}

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

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """Return each token as text on its own; one that is only a part of a character shows as U+FFFD."""
        decode = self.target.tokenizer.decode
        for token in set(token_ids) - self._token_texts.keys():
            self._token_texts[token] = decode([token], clean_up_tokenization_spaces=False)
        return [self._token_texts[token] for token in token_ids]

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
        work = self._begin(batch, clock)
        prefill_s = clock.elapsed
        rounds: list[Round] = []

        while batch.rows:
            if should_cancel is not None and should_cancel():
                self._publish(batch.finish_all("cancelled", clock.elapsed), clock, on_update)
                break
            if work is None or not clock.fits(clock.expected_round_s):
                self._publish(batch.finish_all("deadline", clock.elapsed), clock, on_update)
                break
            added, done = work.round(clock)
            rounds.append(done)
            self._publish(batch.rows, clock, on_update, added)
            batch.retire_finished(work.target, work.drafter)
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

    def _begin(self, batch: Batch, clock: Clock) -> Decoding | None:
        """Prefill target and drafter; None when that alone would miss the deadline."""
        n_prefill = len(batch.prompt) - 1
        if not clock.fits(self._prefill_s_per_token * n_prefill):
            return None
        policy, drafter = self._make_policy(), self._make_drafter()
        started = clock.elapsed
        capacity = len(batch.prompt) + batch.limit + MAX_DRAFT_LENGTH + 1
        target = ModelRunner(self.target.model, self.target.vocab_size, batch.max_samples, capacity)
        target.prefill(batch.prompt[:-1], len(batch.rows))
        drafter.begin(batch.rows, batch.max_samples, capacity)
        if n_prefill >= 16:
            seen = (clock.elapsed - started) / n_prefill
            self._prefill_s_per_token = min(self._prefill_s_per_token or seen, seen)
        return Decoding(batch, self.target, target, drafter, policy, self.config.acceptance)

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
        """Return the policy that the configuration names, in its starting state."""
        match self.config.draft_length:
            case "goodput":
                return GoodputLength(self._acceptance, self.verify_cost, drafts_cost_time=self.draft is not None)
            case "bass":
                return BassLength()
            case "table":
                return TableLength(self._profile)
            case fixed:
                return FixedLength(parse_draft_length(fixed) or 0)

    @cached_property
    def _profile(self) -> Profile:
        profile = find(self.profile_key)
        if profile is None:
            raise RequestError(
                "draft_length is 'table' and there is no profile of this target, drafter and device: make one with "
                f"`bassline bench profile --target {self.config.target} --drafter {self.config.drafter}`"
            )
        return profile

    @property
    def profile_key(self) -> dict[str, str]:
        """What a draft-length profile depends on."""
        facts = self.provenance()
        names = ("target", "target_sha256", "draft_sha256", "device", "threads", "dtype", "torch")
        return {
            "drafter": self.config.drafter,
            "acceptance": self.config.acceptance,
            **{name: str(facts[name]) for name in names},
        }

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
