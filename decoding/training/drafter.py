"""One command's work: collect the target's text, train a head on it, measure it, store it.

Every step can be interrupted. What was collected and trained stays in the work folder, and the same call resumes there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from typing import Any

import torch

from decoding.models import trained_heads
from decoding.models.device import pick_device, pick_dtype
from decoding.models.dflash import DFlash
from decoding.models.errors import ModelError
from decoding.models.loaded import LoadedModel, ModelSpec
from decoding.models.progress import format_bytes
from decoding.models.trained_heads import HeadRecord, LoadedHead
from decoding.models.weight_formats import FORMATS
from decoding.prepare import load_model, load_unpacked, refuse_own_attention
from decoding.request import RequestError
from decoding.training import measure
from decoding.training.collection import (
    N_STATEMENTS,
    Collection,
    OverlapFilter,
    PromptBuilder,
    choose_fitting_prompts,
    compute_largest_shard,
)
from decoding.training.documents import Documents, Shards
from decoding.training.initial import build_head, find_most_used, read_output_rows
from decoding.training.objective import Objective
from decoding.training.plan import Plan, WorkFolder
from decoding.training.statements import Statement
from decoding.training.trainer import Evaluation, Trainer

COLLECTING = 0.6
"""The share of the hours in which text is collected: the amount of text decides how good a head becomes."""
MAX_EPOCHS = 12
_TIMED_STEPS = 12
_N_PROMPTS = 2


class TrainingStoppedError(RuntimeError):
    """The training was stopped; the same call resumes it."""


@dataclass
class DrafterTraining:
    """Trains the head of a target. `statements` yields the same prompts, in the same order, each time it is called.

    `make_prompt_builder` returns how to ask the loaded target; `tasks` are the texts of evaluated tasks to keep out.
    `report` receives the progress: how much of what number is done, and of what, with facts after a colon.
    """

    wanted_plan: Plan
    statements: Callable[[], Iterator[Statement]]
    make_prompt_builder: Callable[[LoadedModel], PromptBuilder]
    tasks: list[str]
    report: Callable[[int, int, str], object] = lambda *_: None
    should_stop: Callable[[], bool] = lambda: False

    def run(self) -> HeadRecord:
        """Return the record of the new head, which replaces the target's old one.

        Raises TrainingStoppedError, ModelError for a target that no head suits, RequestError for wrong options.
        """
        self._work = WorkFolder(self.wanted_plan.target)
        self._plan = self._work.open(self.wanted_plan)
        self._shards = Shards(self._work.shards)
        if self._plan.n_shards is None:
            self._collect()
        record = self._store(*self._train())
        self._work.remove()
        return record

    def _decide(self, plan: Plan) -> Plan:
        self._work.write_plan(plan)
        self._plan = plan
        return plan

    # Collecting ---------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        plan = self._plan
        if not self._shards.infos:
            plan = self._decide(replace(plan, weights=_choose_fastest_weights()))
        target = load_model(ModelSpec(plan.target, weights=plan.weights))
        refuse_own_attention(target)
        collection = Collection(
            target,
            plan.taps,
            self._shards,
            self.statements,
            self.make_prompt_builder(target),
            OverlapFilter(self.tasks),
            plan.seed,
            self.should_stop,
            self._report_collected,
        )
        next_bytes = compute_largest_shard(target, plan.taps)
        self._require_room(next_bytes)
        while not self._has_enough(next_bytes):
            self._n_running, self._shard_started = 0, time.monotonic()
            if collection.add_shard() is None:
                if self.should_stop():
                    raise TrainingStoppedError
                break
        if not self._shards.infos:
            raise ModelError(f"{plan.target} wrote no text that can be used: no drafter can be trained for it.")
        self._decide(replace(plan, n_shards=len(self._shards.infos)))

    def _require_room(self, n_bytes: int) -> None:
        """Raise RequestError if not even one shard of this size may be kept, and forget the training."""
        if n_bytes > self._plan.max_bytes:
            self._work.remove()
            raise RequestError(
                f"a part of the training data may take {format_bytes(n_bytes)}: give a larger --max-disk"
            )

    def _has_enough(self, next_bytes: int) -> bool:
        seconds, tokens = self._count_collected()
        if self._shards.n_bytes + next_bytes > self._plan.max_bytes:
            return True
        return seconds >= self._limit_s if self._limit_s is not None else tokens >= (self._plan.tokens or 0)

    @property
    def _limit_s(self) -> float | None:
        """The seconds in which text is collected, None where the plan has a number of tokens."""
        return None if self._plan.hours is None else self._plan.hours * 3600 * COLLECTING

    def _count_collected(self) -> tuple[float, int]:
        """The seconds and the tokens of all finished shards."""
        infos = self._shards.infos
        return sum(info.seconds for info in infos), sum(info.n_tokens for info in infos)

    def _report_collected(self, n_tokens: int) -> None:
        """Report the tokens of a text that has ended."""
        self._n_running += n_tokens
        running_s = time.monotonic() - self._shard_started
        seconds, tokens = self._count_collected()
        pace = f"{self._n_running / max(running_s, 1e-9):.0f} tokens/s"
        n_all = tokens + self._n_running
        if self._limit_s is not None:
            done_s, limit_s = round(seconds + running_s), round(self._limit_s)
            self.report(done_s, limit_s, f"seconds of collecting text: {n_all:,} tokens, {pace}")
        else:
            self.report(n_all, self._plan.tokens or 0, f"tokens of collected text: {pace}")

    # Training -----------------------------------------------------------------------------------------------------

    def _train(self) -> tuple[DFlash, dict[str, Any]]:
        """The trained head, and for its record what is known of the training."""
        plan = self._plan
        assert plan.n_shards is not None
        target = load_unpacked(ModelSpec(plan.target))
        documents = Documents(self._shards, plan.n_shards)
        if plan.n_steps is None:
            plan = self._decide(replace(plan, n_steps=self._plan_steps(target, documents)))
        assert plan.n_steps is not None
        trainer = self._make_trainer(target, documents, plan.n_steps)
        if not trainer.run():
            raise TrainingStoppedError
        return trainer.head, {
            "hours": (sum(info.seconds for info in self._shards.infos) + trainer.seconds) / 3600,
            "match": trainer.best.match,
            "curve": [asdict(one) for one in trainer.curve],
            "data": self._describe_data(trainer.step),
        }

    def _make_trainer(self, target: LoadedModel, documents: Documents, n_steps: int) -> Trainer:
        plan = self._plan
        ids = find_most_used((document.tokens for document in documents.train), target.vocab_size)
        head = build_head(target, plan.taps, ids, plan.seed)
        embedding = target.model.get_input_embeddings()
        trainer = Trainer(
            head.to(target.device),
            Objective(head, lambda tokens: embedding(tokens).float(), read_output_rows(target, ids)),
            documents,
            n_steps,
            self._work.checkpoint,
            plan.seed,
            should_stop=self.should_stop,
        )
        trainer.on_step = lambda step: self.report(step, n_steps, f"steps: {_describe_evaluation(trainer.best)}")
        return trainer

    def _plan_steps(self, target: LoadedModel, documents: Documents) -> int:
        """How many steps to take: all of the epochs, or as many as fit into the hours."""
        plan = self._plan
        if plan.epochs is not None:
            return plan.epochs * documents.n_batches()
        assert plan.hours is not None
        trial = self._make_trainer(target, documents, _TIMED_STEPS)
        step_s = trial.time_steps(_TIMED_STEPS) / _TIMED_STEPS
        left_s = plan.hours * 3600 * (1 - COLLECTING)
        return max(1, min(int(left_s / step_s), MAX_EPOCHS * documents.n_batches()))

    def _describe_data(self, steps: int) -> dict[str, Any]:
        infos = self._shards.infos
        names = ("n_tokens", "n_documents", "n_prompts", "dropped_prompts", "dropped_texts")
        return {name: sum(getattr(info, name) for info in infos) for name in names} | {
            "n_bytes": self._shards.n_bytes,
            "steps": steps,
            "weights": self._plan.weights,
        }

    # Measuring and storing ----------------------------------------------------------------------------------------

    def _store(self, head: DFlash, facts: dict[str, Any]) -> HeadRecord:
        """Store the head; the old one stays until this one has been measured."""
        target = load_model(ModelSpec(self._plan.target))

        def describe(stored: DFlash, sha256: str, n_bytes: int) -> HeadRecord:
            record = trained_heads.describe_head(target, stored, "trained", sha256, n_bytes, **facts)
            loaded = trained_heads.prepare_head(stored, target, record)
            return replace(record, speeds=self._measure_speeds(target, loaded))

        return trained_heads.store(target, head, describe)

    def _measure_speeds(self, target: LoadedModel, head: LoadedHead) -> list[dict[str, Any]]:
        n_used = len(self._shards.infos) * N_STATEMENTS
        unread = chain(islice(self.statements(), n_used, None), self.statements())
        n_answer = min(measure.LONGEST, target.context_length // 4)
        fresh = choose_fitting_prompts(target, self.make_prompt_builder(target), unread, _N_PROMPTS, n_answer)
        n_all = len(fresh) * len(measure.DRAFTERS) * len(measure.BATCHES)
        done = 0

        def count() -> None:
            nonlocal done
            done += 1
            self.report(done, n_all, "answers that measure the speed")

        return measure.measure_speeds(target, head, fresh, count)


def _choose_fastest_weights() -> str:
    """Return the weights that write the most text in a given time: 8-bit ones where a CPU would compute in float32."""
    device = pick_device("auto")
    return (
        "int8"
        if pick_dtype("auto", device) == torch.float32 and FORMATS["int8"].find_obstacle(device) is None
        else "dense"
    )


def _describe_evaluation(evaluation: Evaluation) -> str:
    first, *_ = evaluation.match
    return f"first draft token right {first:.0%} of the time, {evaluation.expected_length:.2f} tokens a round"
