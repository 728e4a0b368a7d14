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

from app.core.states import RunState
from app.leaderboard.service import Row
from app.web.ui.units import count, decimal, gibibytes, interval, milliseconds, percent, seconds, size

Read = Callable[[Row], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a row for programs: `name` and `type` in REST and JSON, `csv` its headers in CSV.

    A value with several headers is a tuple of as many values. Without `csv`, the header is `name`.
    """

    name: str
    type: Any
    read: Read
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
    """A column for people, with the fields that hold its values for programs."""

    key: str  # stands in addresses (`?sort=`, `?columns=`)
    label: str
    fields: tuple[Field, ...]
    unit: Callable[..., str]  # the first field's value as text
    about: str  # on the page About, like `formula`
    note: Callable[[Row], str] = lambda _: ""  # in small type below the text
    share: Callable[[Row], tuple[float, float, float]] | None = None  # (share, low, high), drawn as a bar, too
    descending: bool = True
    of_tasks: bool = False  # a share of the run's tasks: their number decides its decimals
    tie: Read = lambda _: 0  # orders rows whose values are equal
    formula: str = ""
    numeric: bool = True
    required: bool = False  # the page always shows it
    shown: bool = True  # until the reader deselects it
    printed: bool = False  # in the table of the command line, which has room for few

    def value(self, row: Row) -> Any:
        """What the column shows of a row and orders the rows by; rows where it is None come last."""
        return self.fields[0].read(row)

    def text(self, row: Row) -> str:
        """The value for people."""
        return self.unit(self.value(row), *([row.run.n_tasks] if self.of_tasks else ()))


def _of_run(name: str, kind: Any, description: str | None = None, csv: tuple[str, ...] = ()) -> Field:
    """A field of the run itself."""
    return Field(name, kind, lambda row: getattr(row.run, name), description, csv)


def _figure(name: str, kind: Any, description: str | None = None, figure: str = "") -> Field:
    """A figure of the run."""
    return Field(name, kind, lambda row: getattr(row.run.figures, figure or name), description)


def _share(name: str) -> tuple[Field, Field]:
    """Pass@First or Pass@All with its interval."""
    interval = f"{name}_interval"
    return (
        Field(name, float, lambda row: getattr(row, name)),
        Field(interval, tuple[float, float], lambda row: getattr(row, interval), csv=(f"{name}_low", f"{name}_high")),
    )


RUN_FIELDS = (
    _of_run("name", str, csv=("run",)),
    Field("run", uuid.UUID, lambda row: row.run.id, "the id of the run", csv=("id",)),
    _of_run("label", str | None, "why the run is not ranked; null for one that is"),
    Field(
        "rank",
        int | None,
        lambda r: r.rank,
        "among all ranked runs over the same tasks on the same device, also those that a filter leaves out",
    ),
    _of_run("state", RunState),
    _of_run("dataset", str),
    _of_run("device", str),
    _of_run("toolchain", str, "of the language that its tasks are in; empty: Python"),
    _of_run("target", str),
    _of_run("weights", str),
    _of_run("drafter", str),
    _of_run("draft_length", str),
    Field("budget_s", float, lambda r: r.budget_s, "the budget the shares were read at"),
    Field("capped", bool, lambda r: r.capped, "the run stopped at that budget, so its shares are lower bounds"),
    _figure("in_guest_tasks", int | None, "tasks with verdicts a program could have forged"),
    _figure("in_guest_samples", int | None, "samples with such a verdict; null: not counted"),
    _figure("in_guest_passed", int | None, "of those, passed"),
    Field(
        "clock",
        str | None,
        lambda row: None if (marks := row.run.figures.clock_marks) is None else " ".join(marks),
        "why the times of the run are not to be trusted; empty: nothing disturbed them; null: not known",
    ),
    Field("tags", list[str], lambda r: list(r.run.tags)),
    _of_run("starred", bool),
    _of_run("archived", bool),
)
"""What identifies a row: on the page, the columns Rank and Run."""

COLUMNS = (
    Column(
        "first",
        "Pass@First",
        _share("pass_first"),
        percent,
        of_tasks=True,
        note=lambda r: interval(r.pass_first_interval, r.run.n_tasks),
        share=lambda r: (r.pass_first, *r.pass_first_interval),
        tie=lambda r: r.pass_all,
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
        _share("pass_all"),
        percent,
        of_tasks=True,
        note=lambda r: interval(r.pass_all_interval, r.run.n_tasks),
        share=lambda r: (r.pass_all, *r.pass_all_interval),
        tie=lambda r: r.pass_first,
        printed=True,
        about="The share of tasks with at least one passing sample finished within B. A perfect choice among the "
        "samples would reach it.",
        formula="Pass@All(B) = #{ t : some s passes, finished(s) ≤ B } / #tasks",
    ),
    Column(
        "loss",
        "Ranking loss",
        (Field("ranking_loss", float, lambda r: r.ranking_loss, "Pass@All minus Pass@First"),),
        size,
        of_tasks=True,
        descending=False,
        about="Pass@All minus Pass@First, in percentage points: tasks with a right answer that was not chosen.",
    ),
    Column(
        "finish",
        "First finished",
        (
            _figure("first_finished_p50_s", float | None),
            _figure("first_finished_p95_s", float | None),
        ),
        seconds,
        note=lambda r: f"p95 {seconds(r.run.figures.first_finished_p95_s)}",
        descending=False,
        about="Seconds until the first sample of a task was finished; median (p50) and 95th percentile (p95) over the "
        "tasks that had one.",
    ),
    Column(
        "speed",
        "ms/token",
        (_figure("ms_per_token", float | None, "mean over all samples", "ms_per_token_all"),),
        milliseconds,
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
        (_figure("tokens_per_s", float | None, "of all samples of a task together"),),
        count,
        shown=False,
        about="Throughput: tokens of all samples of a task together per second of decoding.",
    ),
    Column(
        "accepted",
        "Accepted",
        (_figure("mean_acceptance_length", float | None),),
        decimal,
        printed=True,
        about="Accepted length: tokens that a sample gains per round of draft, verify and accept, that is the accepted "
        "draft tokens plus one from the target. Plain decoding has 1.",
        formula="accepted length = 1 + accepted draft tokens / rounds, over all samples and rounds",
    ),
    Column(
        "cost",
        "seconds per solved task",
        (
            _figure(
                "seconds_per_right",
                float | None,
                "of decoding, per task that Pass@First counts at the run's own budget",
            ),
        ),
        seconds,
        descending=False,
        shown=False,
        about="Cost of a solved task: the seconds in which the engine decoded, divided by the tasks that Pass@First "
        "counts, at the run's own budget. Times the price of the machine per second it is the price of a solved task.",
        formula="seconds per solved task = Σ wall_t / #{ t : chosen_t passes }",
    ),
    Column(
        "memory",
        "Memory",
        (_figure("peak_memory_bytes", int | None, "highest over all tasks"),),
        gibibytes,
        descending=False,
        shown=False,
        about="Peak memory of the device, highest over all tasks: on a GPU what the engine allocated, on a CPU what "
        "its process held at most until then.",
    ),
    Column(
        "samples",
        "Samples",
        (_of_run("n", int, "samples per task"),),
        str,
        printed=True,
        about="Samples decoded for each task, side by side.",
    ),
    Column(
        "tasks",
        "Tasks",
        (
            _of_run("n_tasks", int, "tasks graded", csv=("tasks",)),
            _of_run("dataset_tasks", int),
        ),
        str,
        note=lambda r: f"of {r.run.dataset_tasks}",
        printed=True,
        about="Tasks graded, of those in the dataset. Shares count graded tasks only.",
    ),
    Column(
        "sampling",
        "Sampling",
        (
            _of_run("temperature", float),
            _of_run("top_p", float),
            _of_run("prompt_mode", str),
        ),
        lambda temperature: f"T {temperature:g}" if temperature else "greedy",
        note=lambda r: f"top-p {r.run.top_p:g}, {r.run.prompt_mode}" if r.run.temperature else r.run.prompt_mode,
        numeric=False,
        shown=False,
        about="Temperature and top-p of the target's distribution, and how a task becomes a prompt.",
    ),
    Column(
        "date",
        "Date",
        (
            _of_run("created_at", dt.datetime),
            _of_run("fingerprint", str),
        ),
        lambda created_at: f"{created_at:%Y-%m-%d}",
        note=lambda r: r.run.fingerprint,
        numeric=False,
        about="The day on which the run was made, and its fingerprint, which is the same for runs of the same "
        "configuration, dataset content and model files.",
    ),
)

FIELDS = (*RUN_FIELDS, *(field for column in COLUMNS for field in column.fields))
"""Every value of a row for programs."""
