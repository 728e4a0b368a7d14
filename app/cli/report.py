"""A run's figures as the table that eval and `runs show` print."""

from __future__ import annotations

from collections import Counter

from rich.console import Console

from app.annotations import schemas as annotation
from app.cli.common import build_pairs, describe_interval, format_number
from app.core.states import RunState
from app.runs import caveats, configuration
from app.runs.failures import FailureCounts
from app.runs.models import Run
from app.runs.repository import RunProgress
from app.runs.results import Figures
from app.web.ui.units import format_percent


def print_run_tables(console: Console, run: Run, counts: RunProgress, failed: FailureCounts) -> None:
    """Prints configuration, progress and figures."""
    rows = [
        ("Run", str(run.id)),
        *configuration.list_configuration(run),
        ("Measured on", f"{run.device_label}, {run.provenance.get('dtype') or run.dtype}"),
        ("Tasks asked for", _format_progress(run, counts)),
        *annotation.list_annotations(run.note, archived=run.archived),
    ]
    console.print(build_pairs(f"{run.name}  ({run.state})", [*rows, ("Error", run.error)] if run.error else rows))
    console.print()
    measured = run.measured.samples
    console.print(build_pairs("Figures", list_figures(run, failed)) if measured else "No figures: no task is finished.")


def _format_progress(run: Run, counts: RunProgress) -> str:
    text = f"{run.n_tasks}: {counts.decoded} decoded"
    if run.graded:
        text += f", {counts.finished} graded"
    if counts.left:
        text += f", {counts.left} left"
    return f"{text}; `bassline runs resume {run.id}` finishes it" if counts.resumable else text


def list_figures(run: Run, failed: FailureCounts) -> list[tuple[str, str]]:
    """The figures, each with its unit and its population; `failed` are the samples of the run that did not pass."""
    f = run.measured
    rows = [("tasks", _describe_coverage(run))]
    if run.graded:
        rows += _list_pass_figures(f)
    rows.append(("samples", f"{f.samples}, {f.samples_finished} finished in time, {f.samples_passed} passed"))
    if run.graded and failed.failed:
        rows.append(("failed samples", failed.in_words))
    first, last, every = map(format_number, (f.ms_per_token_first, f.ms_per_token_last, f.ms_per_token_all))
    p50, p95 = (format_number(seconds, " s", 2) for seconds in (f.first_finished_p50_s, f.first_finished_p95_s))
    rows += [
        ("ms per token", f"first {first}, last {last}, all {every}"),
        ("tokens per second", format_number(f.tokens_per_s)),
        ("mean acceptance length", format_number(f.mean_acceptance_length, " tokens per round", 2)),
        ("first finished", f"median {p50}, 95th percentile {p95}"),
        ("budget overrun, largest", format_number(f.budget_overrun_max_s, " s", 3)),
    ]
    rows += [("clock disturbed", mark) for mark in f.clock_marks or ()]
    if f.speedup_over_plain is not None:
        gain = f"{f.speedup_over_plain:.2f} x tokens per second, same engine without drafting"
        rows.append(("speed-up over plain", f"{gain}, {f.speedup_tasks} of the same prompts"))
    return rows


def _list_pass_figures(f: Figures) -> list[tuple[str, str]]:
    untimed = [("at a budget", "not measured: the samples have no finish times")]
    caveat_rows = (
        ("weak or unstated", caveats.describe_without_left_out(f)),
        ("by judge", caveats.describe_judges(f)),
    )
    return [
        *(untimed if f.pass_first is None and f.pass_at_1 is not None else []),
        ("Pass@First", f"{_format_share(f, f.pass_first)}  {describe_interval(f.pass_first_interval, f.tasks)}"),
        ("Pass@All", f"{_format_share(f, f.pass_all)}  {describe_interval(f.pass_all_interval, f.tasks)}"),
        ("pass@1 (unbiased)", _format_share(f, f.pass_at_1)),
        *_list_in_guest(f),
        *((label, text) for label, text in caveat_rows if text is not None),
    ]


def _format_share(f: Figures, share: float | None) -> str:
    return f"{format_percent(share, f.tasks):>8}"


def _describe_coverage(run: Run) -> str:
    f = run.measured
    text = f"{f.tasks} of the {f.dataset_tasks} in {run.dataset.name}"
    left_out = Counter(
        {
            "failed": f.tasks_failed,
            "with a sandbox fault": f.tasks_sandbox_error,
            "excluded, their own solution fails": f.tasks_excluded,
        }
    )
    text += "".join(f", {count} {reason}" for reason, count in left_out.items() if count)
    not_graded = max(0, f.tasks_decoded - f.tasks - f.tasks_sandbox_error)
    if not_graded:
        text += f", {not_graded} decoded and not graded"
    not_taken_up = f.tasks_selected - f.tasks - f.tasks_failed - f.tasks_sandbox_error - not_graded
    if not_taken_up > 0:
        why = "the time limit came first" if run.state is RunState.FINISHED else str(run.state)
        text += f", {not_taken_up} requested and not done ({why})"
    return text


def _list_in_guest(f: Figures) -> list[tuple[str, str]]:
    """The figures without passes that a program could have forged; empty if there are none."""
    found = caveats.describe_forgeable_share(f)
    if found is None:
        return []
    # Unknown for runs that ended before they were counted.
    first, every = (format_percent(share, f.tasks) for share in (f.pass_first_proxy, f.pass_all_proxy))
    return [("trust", found), ("without those passes", f"Pass@First {first}, Pass@All {every}")]
