"""Samples of runs over the same tasks as arrays: which run solves which task within a budget.

Chooses the sample of Pass@First, for one run and for many, for figures, overlays and studies. A page
that compares a dozen runs reads some ten thousand samples, for which arrays take milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from evaluation.metrics import Bools, Curve, Floats, Ints, Latency, MetricError, SampleOutcome

Figure = Literal["first", "all"]
"""Pass@First or Pass@All."""
FIGURES: tuple[Figure, ...] = ("first", "all")

MAX_BUDGETS = 512
"""Budgets whose outcomes stay in memory: a reader may ask for any number of them."""


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """One entry per sample in each array, in any order."""

    run: Ints  # index from 0
    task: Ints  # index from 0
    index: Ints
    finished_s: Floats  # NaN if it did not finish within its run's budget
    mean_logprob: Floats  # NaN if it has none
    passed: Bools
    n_tokens: Ints


class PairedOutcomes:
    """Samples of `n_runs` runs over the tasks with these ids, sorted once, so that any budget is read off quickly.

    Raises MetricError without runs or tasks.
    """

    def __init__(self, n_runs: int, task_ids: Sequence[str], samples: SampleColumns) -> None:
        if n_runs < 1 or not task_ids:
            raise MetricError("there are no runs or no tasks to measure")
        self.n_runs, self.task_ids, self.columns = n_runs, tuple(task_ids), samples
        self.n_tasks = len(self.task_ids)
        pair = samples.run * self.n_tasks + samples.task  # one number for a run and its task
        ended = np.flatnonzero(~np.isnan(samples.finished_s))
        order = ended[np.lexsort((samples.index[ended], samples.finished_s[ended], pair[ended]))]
        self._order = order
        self._pair, self._time = pair[order], samples.finished_s[order]
        self._passed = samples.passed[order]
        self._starts = np.searchsorted(self._pair, np.arange(n_runs * self.n_tasks))
        self._best = self._find_chosen(samples.mean_logprob[order], samples.index[order])
        # Pairs ascend, so a maximum over "pair, value" starts over with each pair.
        self._any = np.maximum.accumulate(self._pair * 2 + self._passed) % 2 == 1
        self._at: dict[float, tuple[Bools, Bools]] = {}

    @classmethod
    def from_samples(cls, *runs: Iterable[SampleOutcome]) -> Self:
        """The samples of each run, over the tasks that all of them have, in the order of the first run.

        Raises MetricError without a common task.
        """
        listed = [list(samples) for samples in runs]
        tasks = [dict.fromkeys(sample.task_id for sample in samples) for samples in listed]
        task_ids = [task_id for task_id in tasks[0] if all(task_id in of_run for of_run in tasks[1:])] if tasks else []
        place = {task_id: number for number, task_id in enumerate(task_ids)}
        rows = [(run, s) for run, samples in enumerate(listed) for s in samples if s.task_id in place]
        columns = SampleColumns(
            run=np.array([run for run, _ in rows], dtype=np.int64),
            task=np.array([place[s.task_id] for _, s in rows], dtype=np.int64),
            index=np.array([s.index for _, s in rows], dtype=np.int64),
            finished_s=np.array([s.finished_s for _, s in rows], dtype=np.float64),  # None becomes NaN
            mean_logprob=np.array([s.mean_logprob for _, s in rows], dtype=np.float64),
            passed=np.array([s.passed for _, s in rows], dtype=np.bool_),
            n_tokens=np.array([s.n_tokens for _, s in rows], dtype=np.int64),
        )
        return cls(len(listed), task_ids, columns)

    def select(self, runs: Sequence[int], tasks: Sequence[int] | None = None) -> PairedOutcomes:
        """These runs, in this order, over these tasks (default: all)."""
        tasks = range(self.n_tasks) if tasks is None else tasks
        new_run, new_task = np.full(self.n_runs, -1), np.full(self.n_tasks, -1)
        new_run[list(runs)], new_task[list(tasks)] = range(len(runs)), range(len(tasks))
        given = self.columns
        kept = np.flatnonzero((new_run[given.run] >= 0) & (new_task[given.task] >= 0))
        columns = SampleColumns(
            new_run[given.run[kept]], new_task[given.task[kept]], given.index[kept], given.finished_s[kept],
            given.mean_logprob[kept], given.passed[kept], given.n_tokens[kept],
        )  # fmt: skip
        return PairedOutcomes(len(runs), [self.task_ids[task] for task in tasks], columns)

    def _find_chosen(self, logprob: Floats, index: Ints) -> Ints:
        """For each finished sample, which one Pass@First chooses among the samples of its pair finished by then: the
        last in the order of `metrics.build_rank_key`."""
        n = len(logprob)
        worst_first = np.lexsort((-index, np.nan_to_num(logprob, nan=-math.inf, neginf=-math.inf, posinf=math.inf)))
        rank = np.empty(n, dtype=np.int64)
        rank[worst_first] = np.arange(n)
        return worst_first[np.maximum.accumulate(self._pair * n + rank) % n] if n else rank

    def find_passes(self, budget_s: float) -> tuple[Bools, Bools]:
        """Whether the chosen sample and whether any sample within `budget_s` passes, each `[R, T]`."""
        if budget_s not in self._at:
            if len(self._at) >= MAX_BUDGETS:
                self._at.clear()
            last, known = self._find_last(budget_s)
            found = (known, known) if not len(self._pair) else (
                self._passed[self._best[last]] & known, self._any[last] & known
            )  # fmt: skip
            self._at[budget_s] = found
        return self._at[budget_s]

    def find_solved(self, figure: Figure, budget_s: float) -> Bools:
        """Which run solves which task within the budget by this figure, `[R, T]`."""
        return self.find_passes(budget_s)[figure == "all"]

    def compute_share(self, figure: Figure, budget_s: float, run: int = 0) -> float:
        """The share of the tasks that a run solves within the budget."""
        return float(self.find_solved(figure, budget_s)[run].mean())

    def find_solved_at_changes(
        self, runs: Sequence[int], end_s: float, stretch: Sequence[float] | None = None
    ) -> tuple[Floats, Bools, Bools]:
        """(budgets, first, every): both figures of `runs` at every budget up to `end_s` at which one of them changes.

        The last budget is `end_s`. With `stretch`, the times of each run are multiplied by its factor.
        """
        found = []
        for place, run in enumerate(runs):
            pair, time, state, before = self._find_states(run)
            time = time * stretch[place] if stretch else time
            for figure in range(2):
                changed = np.flatnonzero((state[figure] != before[figure]) & (time <= end_s))
                found.append((figure, place, pair[changed] - run * self.n_tasks, time[changed]))
        budgets = np.unique(np.concatenate([times for *_, times in found] + [np.array([end_s])]))
        toggles = np.zeros((2, len(runs), self.n_tasks, len(budgets)), dtype=np.int8)
        for figure, place, tasks, times in found:
            columns = tasks * len(budgets) + np.searchsorted(budgets, times)
            toggles[figure, place] = np.bincount(columns, minlength=self.n_tasks * len(budgets)).reshape(
                -1, len(budgets)
            )
        first, every = toggles.cumsum(axis=3, dtype=np.int8) % 2 == 1
        return budgets, first, every

    def _find_states(self, run: int) -> tuple[Ints, Floats, Ints, Ints]:
        """Of each finished sample of a run: its pair, its time, and both figures of its task after and before it."""
        ended = self._slice(run)
        pair, time = self._pair[ended], self._time[ended]
        state = np.stack((self._passed[self._best[ended]], self._any[ended])).astype(np.int64)
        before = np.zeros_like(state)
        before[:, 1:] = state[:, :-1] * (pair[1:] == pair[:-1])
        return pair, time, state, before

    def _slice(self, run: int) -> slice:
        """Where the finished samples of a run are."""
        return slice(*np.searchsorted(self._pair, (run * self.n_tasks, (run + 1) * self.n_tasks)).tolist())

    def find_chosen(self, budget_s: float) -> Ints:
        """The index in the columns of the sample that is chosen within `budget_s`, -1 where none finished, `[R, T]`."""
        last, known = self._find_last(budget_s)
        if not len(self._pair):
            return np.full(known.shape, -1)
        return np.where(known, self._order[self._best[last]], -1)

    def build_curve(self, run: int, end_s: float) -> Curve:
        """The curve of one run up to `end_s` seconds."""
        _, time, state, before = self._find_states(run)
        inside = time <= end_s
        budgets, place = np.unique(time[inside], return_inverse=True)
        gains = (np.bincount(place, row, len(budgets)).astype(np.int64) for row in (state - before)[:, inside])
        first, every = (row.cumsum() for row in gains)
        return Curve.from_counts(budgets.tolist(), first, every, self.n_tasks, end_s)

    def find_first_correct_times(self) -> Floats:
        """Seconds until the first passing sample finished, NaN where none did, `[R, T]`."""
        found = np.full(self.n_runs * self.n_tasks, math.nan)
        pairs, first = np.unique(self._pair[self._passed], return_index=True)
        found[pairs] = self._time[self._passed][first]
        return found.reshape(self.n_runs, self.n_tasks)

    def list_finish_times(self, run: int) -> Floats:
        """When the samples of a run finished, ascending; those that did not are missing."""
        return np.sort(self._time[self._slice(run)])

    def find_finished(self) -> Bools:
        """Whether any sample finished, `[R, T]`."""
        return self._find_last(math.inf)[1]

    def compute_latency(self, run: int = 0, among: Bools | None = None) -> Latency:
        """Milliseconds per token over the finished samples with tokens of a run, on the tasks in `among` `[T]`."""
        ended = self._slice(run)
        tokens, task = self.columns.n_tokens[self._order[ended]], self._pair[ended] - run * self.n_tasks
        kept = (tokens > 0) & (True if among is None else among[task])
        own, task = 1000.0 * self._time[ended][kept] / tokens[kept], task[kept]
        if not len(own):
            return Latency(None, None, None)
        by_task = np.split(own, np.flatnonzero(np.diff(task)) + 1)
        means = [math.fsum(samples) / len(samples) for samples in by_task]
        firsts, lasts = [samples[0] for samples in by_task], [samples[-1] for samples in by_task]
        return Latency(float(np.mean(firsts)), float(np.mean(lasts)), float(np.mean(means)))

    def _find_last(self, budget_s: float) -> tuple[Ints, Bools]:
        """The last finished sample within the budget of each pair, and whether there is one, each `[R, T]`."""
        shape = self.n_runs, self.n_tasks
        counts = np.bincount(self._pair[self._time <= budget_s], minlength=self.n_runs * self.n_tasks)
        last = np.maximum(self._starts + counts - 1, 0)
        return np.minimum(last, max(len(self._pair) - 1, 0)).reshape(shape), (counts > 0).reshape(shape)


def compute_pass_first(outcomes: Iterable[SampleOutcome], budget_s: float) -> float:
    """Share of tasks whose chosen sample passes, chosen among the samples finished within `budget_s`.

    Raises MetricError without samples.
    """
    return PairedOutcomes.from_samples(outcomes).compute_share("first", budget_s)


def compute_pass_all(outcomes: Iterable[SampleOutcome], budget_s: float) -> float:
    """Share of tasks with a passing sample finished within `budget_s`."""
    return PairedOutcomes.from_samples(outcomes).compute_share("all", budget_s)
