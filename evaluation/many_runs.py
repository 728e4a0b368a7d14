"""Several runs over the same tasks as arrays: which of them solves which task within a budget.

evaluation/metrics.py has the definitions. A page that overlays a dozen runs reads some ten thousand samples, for which
arrays take milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import Curve, MetricError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """One entry per sample in each array, in any order."""

    run: Ints  # index from 0
    task: Ints  # index from 0
    index: Ints
    finished_s: Floats  # NaN if it did not finish within its run's budget
    mean_logprob: Floats  # NaN if it has none
    passed: Bools


class ManyRuns:
    """Samples of `n_runs` runs over `n_tasks` tasks, sorted once, so that every budget is read off at once.

    Raises MetricError without runs or tasks.
    """

    def __init__(self, n_runs: int, n_tasks: int, samples: SampleColumns) -> None:
        if n_runs < 1 or n_tasks < 1:
            raise MetricError("there are no runs or no tasks to measure")
        self.n_runs, self.n_tasks = n_runs, n_tasks
        pair = samples.run * n_tasks + samples.task
        ended = np.flatnonzero(~np.isnan(samples.finished_s))
        order = ended[np.lexsort((samples.index[ended], samples.finished_s[ended], pair[ended]))]
        self._order = order
        self._pair, self._time = pair[order], samples.finished_s[order]
        self._passed = samples.passed[order]
        self._starts = np.searchsorted(self._pair, np.arange(n_runs * n_tasks))
        self._best = self._running_best(np.nan_to_num(samples.mean_logprob[order], nan=-math.inf), samples.index[order])
        # Pairs ascend, so a maximum over "pair, value" starts over with each pair.
        self._any = np.maximum.accumulate(self._pair * 2 + self._passed) % 2 == 1

    def _running_best(self, logprob: Floats, index: Ints) -> Ints:
        """For each finished sample, which one Pass@First chooses among the samples of its pair finished by then."""
        n = len(logprob)
        worst_first = np.lexsort((-index, logprob))
        rank = np.empty(n, dtype=np.int64)
        rank[worst_first] = np.arange(n)
        return worst_first[np.maximum.accumulate(self._pair * n + rank) % n] if n else rank

    def at(self, budget_s: float) -> tuple[Bools, Bools]:
        """Whether the chosen sample and whether any sample within `budget_s` passes, each `[R, T]`."""
        last, known = self._last(budget_s)
        if not len(self._pair):
            return known, known.copy()
        return self._passed[self._best[last]] & known, self._any[last] & known

    def solved(self, budgets: Sequence[float]) -> tuple[Bools, Bools]:
        """`at` for each of these budgets, each `[R, T, K]`."""
        first, every = (np.stack(of, axis=2) for of in zip(*map(self.at, budgets), strict=True))
        return first, every

    def solved_at_changes(
        self, runs: Sequence[int], end_s: float, stretch: Sequence[float] | None = None
    ) -> tuple[Floats, Bools, Bools]:
        """(budgets, first, every): `solved` for `runs` at every budget up to `end_s` at which one of them changes.

        The last budget is `end_s`. With `stretch`, the times of each run are multiplied by its factor.
        """
        found = []
        for place, run in enumerate(runs):
            pair, time, state, before = self._states(run)
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

    def _states(self, run: int) -> tuple[Ints, Floats, Ints, Ints]:
        """Of each finished sample of a run: its pair, its time, and both figures of its task after and before it."""
        start, stop = np.searchsorted(self._pair, (run * self.n_tasks, (run + 1) * self.n_tasks))
        pair, time = self._pair[start:stop], self._time[start:stop]
        state = np.stack((self._passed[self._best[start:stop]], self._any[start:stop])).astype(np.int64)
        before = np.zeros_like(state)
        before[:, 1:] = state[:, :-1] * (pair[1:] == pair[:-1])
        return pair, time, state, before

    def chosen(self, budget_s: float) -> Ints:
        """The index in the columns of the sample that is chosen within `budget_s`, -1 where none finished, `[R, T]`."""
        last, known = self._last(budget_s)
        if not len(self._pair):
            return np.full(known.shape, -1)
        return np.where(known, self._order[self._best[last]], -1)

    def curve(self, run: int, end_s: float) -> Curve:
        """The curve of one run up to `end_s` seconds."""
        _, time, state, before = self._states(run)
        inside = time <= end_s
        budgets, place = np.unique(time[inside], return_inverse=True)
        gains = (np.bincount(place, row, len(budgets)).astype(np.int64) for row in (state - before)[:, inside])
        first, every = (row.cumsum() for row in gains)
        return Curve.from_counts(budgets.tolist(), first, every, self.n_tasks, end_s)

    def first_correct(self) -> Floats:
        """Seconds until the first passing sample finished, NaN where none did, `[R, T]`."""
        found = np.full(self.n_runs * self.n_tasks, math.nan)
        pairs, first = np.unique(self._pair[self._passed], return_index=True)
        found[pairs] = self._time[self._passed][first]
        return found.reshape(self.n_runs, self.n_tasks)

    def _last(self, budget_s: float) -> tuple[Ints, Bools]:
        """The last finished sample within the budget of each pair, and whether there is one, each `[R, T]`."""
        shape = self.n_runs, self.n_tasks
        counts = np.bincount(self._pair[self._time <= budget_s], minlength=self.n_runs * self.n_tasks)
        last = np.maximum(self._starts + counts - 1, 0)
        return np.minimum(last, max(len(self._pair) - 1, 0)).reshape(shape), (counts > 0).reshape(shape)
