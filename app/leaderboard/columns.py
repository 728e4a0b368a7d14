"""Every column of the leaderboard, declared once.

The page, its CSV, REST, `bassline leaderboard` and About are made from COLUMNS. A new column is an entry here, and, if
`Entry` does not hold its value yet, a field there.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.leaderboard.service import Row
from app.states import RunState
from app.ui.units import count, decimal, gibibytes, milliseconds, percent, seconds


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a row for programs: `name` and `type` in REST and JSON, `csv` its headers in CSV.

    A value with several headers is a tuple of as many values. Without `csv`, the header is `name`.
    """

    name: str
    type: Any
    read: Callable[[Row], Any]
    description: str | None = None
    csv: tuple[str, ...] = ()

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers in CSV."""
        return self.csv or (self.name,)

    def cells(self, row: Row) -> tuple[Any, ...]:
        """The values in CSV, one per header; a list is space-separated."""
        value = self.read(row)
        if isinstance(value, list):
            value = " ".join(value)
        return value if len(self.headers) > 1 else (value,)


@dataclass(frozen=True, slots=True)
class Column:
    """A column for people, with the fields that hold its values for programs.

    `key` stands in addresses (`?sort=`, `?columns=`). A cell shows `text`, and `note` in small type below it; a column
    with a `share` (share, low, high) also gets a bar. `sort` returns the value that orders the rows; rows where it is
    None come last. About shows `about` and `formula`. The page always shows a `required` column, and a `shown` one
    until the reader deselects it. The table of the command line has room for the `printed` ones.
    """

    key: str
    label: str
    fields: tuple[Field, ...]
    text: Callable[[Row], str]
    about: str
    note: Callable[[Row], str] = lambda _: ""
    share: Callable[[Row], tuple[float, float, float]] | None = None
    sort: Callable[[Row], Any] | None = None
    descending: bool = True
    formula: str = ""
    numeric: bool = True
    required: bool = False
    shown: bool = True
    printed: bool = False


RUN_FIELDS = (
    Field("name", str, lambda r: r.run.name, csv=("run",)),
    Field("run", uuid.UUID, lambda r: r.run.id, "the id of the run", csv=("id",)),
    Field("label", str | None, lambda r: r.run.label, "why the run is not ranked; null for one that is"),
    Field(
        "rank",
        int | None,
        lambda r: r.rank,
        "among all ranked runs over the same tasks on the same device, also those that a filter leaves out",
    ),
    Field("state", RunState, lambda r: r.run.state),
    Field("dataset", str, lambda r: r.run.dataset),
    Field("device", str, lambda r: r.run.device),
    Field("target", str, lambda r: r.run.target),
    Field("weights", str, lambda r: r.run.weights),
    Field("drafter", str, lambda r: r.run.drafter),
    Field("draft_length", str, lambda r: r.run.draft_length),
    Field("budget_s", float, lambda r: r.budget_s, "the budget the shares were read at"),
    Field("capped", bool, lambda r: r.capped, "the run stopped at that budget, so its shares are lower bounds"),
    Field(
        "in_guest_tasks", int | None, lambda r: r.run.in_guest_tasks, "tasks with verdicts a program could have forged"
    ),
    Field(
        "in_guest_samples",
        int | None,
        lambda r: r.run.in_guest_samples,
        "samples with such a verdict; null: not counted",
    ),
    Field("in_guest_passed", int | None, lambda r: r.run.in_guest_passed, "of those, passed"),
    Field(
        "clock",
        str | None,
        lambda r: None if r.run.clock_marks is None else " ".join(r.run.clock_marks),
        "why the times of the run are not to be trusted; empty: nothing disturbed them; null: not known",
    ),
    Field("tags", list[str], lambda r: list(r.run.tags)),
    Field("starred", bool, lambda r: r.run.starred),
    Field("archived", bool, lambda r: r.run.archived),
)
"""What identifies a row: on the page, the columns Rank and Run."""

COLUMNS = (
    Column(
        "first",
        "Pass@First",
        (
            Field("pass_first", float, lambda r: r.pass_first),
            Field(
                "pass_first_interval",
                tuple[float, float],
                lambda r: r.pass_first_interval,
                csv=("pass_first_low", "pass_first_high"),
            ),
        ),
        text=lambda r: percent(r.pass_first),
        note=lambda r: _interval(r.pass_first_interval),
        share=lambda r: (r.pass_first, *r.pass_first_interval),
        sort=lambda r: (r.pass_first, r.pass_all),
        required=True,
        printed=True,
        about="The share of tasks whose chosen sample passes. The chosen sample is the one with the highest mean "
        "log-probability per token under the target model, among those finished within B. A task without a finished "
        "sample counts as not passed. This is the quality for a user who sees one answer.",
        formula="chosen_t(B) = argmax { mean_logprob(s) : finished(s) ≤ B }\n"
        "Pass@First(B) = #{ t : chosen_t(B) passes } / #tasks",
    ),
    Column(
        "all",
        "Pass@All",
        (
            Field("pass_all", float, lambda r: r.pass_all),
            Field(
                "pass_all_interval",
                tuple[float, float],
                lambda r: r.pass_all_interval,
                csv=("pass_all_low", "pass_all_high"),
            ),
        ),
        text=lambda r: percent(r.pass_all),
        note=lambda r: _interval(r.pass_all_interval),
        share=lambda r: (r.pass_all, *r.pass_all_interval),
        sort=lambda r: (r.pass_all, r.pass_first),
        printed=True,
        about="The share of tasks with at least one passing sample finished within B. A perfect choice among the "
        "samples would reach it.",
        formula="Pass@All(B) = #{ t : some s passes, finished(s) ≤ B } / #tasks",
    ),
    Column(
        "loss",
        "Ranking loss",
        (Field("ranking_loss", float, lambda r: r.ranking_loss, "Pass@All minus Pass@First"),),
        text=lambda r: f"{100 * r.ranking_loss:.1f}",
        sort=lambda r: r.ranking_loss,
        descending=False,
        about="Pass@All minus Pass@First, in percentage points: tasks with a right answer that was not chosen.",
    ),
    Column(
        "finish",
        "First finished",
        (
            Field("first_finished_p50_s", float | None, lambda r: r.run.first_finished_p50_s),
            Field("first_finished_p95_s", float | None, lambda r: r.run.first_finished_p95_s),
        ),
        text=lambda r: seconds(r.run.first_finished_p50_s),
        note=lambda r: f"p95 {seconds(r.run.first_finished_p95_s)}",
        sort=lambda r: r.run.first_finished_p50_s,
        descending=False,
        about="Seconds until the first sample of a task was finished; median (p50) and 95th percentile (p95) over the "
        "tasks that had one.",
    ),
    Column(
        "speed",
        "ms/token",
        (Field("ms_per_token", float | None, lambda r: r.run.ms_per_token, "mean over all samples"),),
        text=lambda r: milliseconds(r.run.ms_per_token),
        sort=lambda r: r.run.ms_per_token,
        descending=False,
        printed=True,
        about="Time per token: milliseconds from the start of the task to the end of a sample, divided by its tokens, "
        "as in the BASS paper. The leaderboard shows the mean over all samples of a task, averaged over tasks; the "
        "page of a run also shows the first sample to finish and the last.",
        formula="ms/token(s) = 1000 · finished(s) / tokens(s)",
    ),
    Column(
        "throughput",
        "tokens/s",
        (Field("tokens_per_s", float | None, lambda r: r.run.tokens_per_s, "of all samples of a task together"),),
        text=lambda r: count(r.run.tokens_per_s),
        sort=lambda r: r.run.tokens_per_s,
        shown=False,
        about="Throughput: tokens of all samples of a task together per second of decoding.",
    ),
    Column(
        "accepted",
        "Accepted",
        (Field("mean_acceptance_length", float | None, lambda r: r.run.mean_acceptance_length),),
        text=lambda r: decimal(r.run.mean_acceptance_length),
        sort=lambda r: r.run.mean_acceptance_length,
        printed=True,
        about="Accepted length: tokens that a sample gains per round of draft, verify and accept, that is the accepted "
        "draft tokens plus one from the target. Plain decoding has 1.",
        formula="accepted length = 1 + accepted draft tokens / rounds, over all samples and rounds",
    ),
    Column(
        "cost",
        "seconds per solved task",
        (
            Field(
                "seconds_per_right",
                float | None,
                lambda r: r.run.seconds_per_right,
                "of decoding, per task that Pass@First counts at the run's own budget",
            ),
        ),
        text=lambda r: seconds(r.run.seconds_per_right),
        sort=lambda r: r.run.seconds_per_right,
        descending=False,
        shown=False,
        about="Cost of a solved task: the seconds in which the engine decoded, divided by the tasks that Pass@First "
        "counts, at the run's own budget. Times the price of the machine per second it is the price of a solved task.",
        formula="seconds per solved task = Σ wall_t / #{ t : chosen_t passes }",
    ),
    Column(
        "memory",
        "Memory",
        (Field("peak_memory_bytes", int | None, lambda r: r.run.peak_memory_bytes, "highest over all tasks"),),
        text=lambda r: gibibytes(r.run.peak_memory_bytes),
        sort=lambda r: r.run.peak_memory_bytes,
        descending=False,
        shown=False,
        about="Peak memory of the device, highest over all tasks: on a GPU what the engine allocated, on a CPU what "
        "its process held at most until then.",
    ),
    Column(
        "samples",
        "Samples",
        (Field("n", int, lambda r: r.run.n, "samples per task"),),
        text=lambda r: str(r.run.n),
        printed=True,
        about="Samples decoded for each task, side by side.",
    ),
    Column(
        "tasks",
        "Tasks",
        (
            Field("n_tasks", int, lambda r: r.run.n_tasks, "tasks graded", csv=("tasks",)),
            Field("dataset_tasks", int, lambda r: r.run.dataset_tasks),
        ),
        text=lambda r: str(r.run.n_tasks),
        note=lambda r: f"of {r.run.dataset_tasks}",
        printed=True,
        about="Tasks graded, of those in the dataset. Shares count graded tasks only.",
    ),
    Column(
        "sampling",
        "Sampling",
        (
            Field("temperature", float, lambda r: r.run.temperature),
            Field("top_p", float, lambda r: r.run.top_p),
            Field("prompt_mode", str, lambda r: r.run.prompt_mode),
        ),
        text=lambda r: f"T {r.run.temperature:g}" if r.run.temperature else "greedy",
        note=lambda r: f"top-p {r.run.top_p:g}, {r.run.prompt_mode}" if r.run.temperature else r.run.prompt_mode,
        numeric=False,
        shown=False,
        about="Temperature and top-p of the target's distribution, and how a task becomes a prompt.",
    ),
    Column(
        "date",
        "Date",
        (
            Field("created_at", dt.datetime, lambda r: r.run.created_at),
            Field("fingerprint", str, lambda r: r.run.fingerprint),
        ),
        text=lambda r: f"{r.run.created_at:%Y-%m-%d}",
        note=lambda r: r.run.fingerprint,
        sort=lambda r: r.run.created_at,
        numeric=False,
        about="The day on which the run was made, and its fingerprint, which is the same for runs of the same "
        "configuration, dataset content and model files.",
    ),
)

FIELDS = (*RUN_FIELDS, *(field for column in COLUMNS for field in column.fields))
"""Every value of a row for programs."""


def _interval(bounds: tuple[float, float]) -> str:
    return f"{100 * bounds[0]:.1f}–{100 * bounds[1]:.1f}"
