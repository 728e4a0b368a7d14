"""A run's figures and what a study says, as the commands print them."""

from __future__ import annotations

import uuid
from collections import Counter

from rich.console import Console

from app.annotations import schemas as annotation
from app.cli import common
from app.cli.common import build_pairs, describe_interval, format_number
from app.core.context import Context
from app.core.errors import BasslineError
from app.core.states import OPEN_RUN_STATES, RunState
from app.runs import caveats, configuration
from app.runs.documents import to_plain_json
from app.runs.failed_samples import FailureCounts
from app.runs.models import Run
from app.runs.repository import RunProgress
from app.runs.results import Figures
from app.studies import documents, progress
from app.studies import report as study_report
from app.studies.analysis import analyse_study
from app.studies.documents import StudyDocument
from app.studies.repository import get_study
from app.studies.sentences import MeasuredTasks, describe_answer, to_text
from app.web.ui.units import format_percent, format_points
from evaluation.decisions import MARGIN


def print_run_tables(console: Console, run: Run, counts: RunProgress, failed: FailureCounts) -> None:
    """Prints configuration, progress and figures."""
    rows = [
        ("Run", str(run.id)),
        *configuration.list_configuration(run),
        ("Measured on", f"{run.device_label}, {run.provenance.get('dtype') or run.dtype}"),
        ("Tasks asked for", _format_progress(run, counts)),
        *annotation.list_annotations(run),
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
    rows: list[tuple[str, str]] = []
    if f.pass_all_unbudgeted is not None:
        rows = [
            ("at a budget", "not measured: the samples have no finish times"),
            ("chosen sample passes", f"{_format_share(f, f.pass_first_unbudgeted)}  whenever it finished"),
            ("any sample passes", f"{_format_share(f, f.pass_all_unbudgeted)}  whenever it finished"),
        ]
    caveat_rows = (
        ("weak or unstated", caveats.describe_without_left_out(f)),
        ("by judge", caveats.describe_judges(f)),
    )
    return [
        *rows,
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


def build_study_document(
    ctx: Context, study_id: uuid.UUID, budget_s: float | None = None, margin: float = MARGIN
) -> StudyDocument:
    """The study and its results by a margin (a share), with the answer at one budget if asked for.

    Raises NotFoundError, and BadInputError for a budget above the study's.
    """
    with ctx.database.read() as session:
        study = get_study(session, study_id)
        return documents.build_document(
            study, analyse_study(session, study), progress.compute_study_progress(session, study), budget_s, margin
        )


def print_study(document: StudyDocument, json_file: str | None) -> None:
    """Writes the JSON and prints the tables."""
    common.write_json(json_file, to_plain_json(document))
    console = common.choose_console(json_file)
    heading = f"{document.study.name} ({document.study.state})"
    console.print(build_pairs(heading, study_report.list_facts(document)))
    console.print()
    console.print(document.disturbance + document.sentence, soft_wrap=True)
    if document.at_budget is not None:
        console.print(document.disturbance + _describe_budget(document), soft_wrap=True)
    if document.study.state in OPEN_RUN_STATES:
        console.print(f"The study is {document.study.state}: these are the results so far.")
    for section in study_report.list_tables(document):
        common.print_text_table(console, section, (study_report.RUN,))


def report_study(ctx: Context, study_id: uuid.UUID, json_file: str | None, margin: float = MARGIN) -> None:
    """Writes an ended study as `print_study` does. Raises BasslineError unless it has finished."""
    document = build_study_document(ctx, study_id, margin=margin)
    print_study(document, json_file)
    study = document.study
    if study.state is not RunState.FINISHED:
        errors = "; ".join(dict.fromkeys(arm.error for arm in document.arms if arm.error))
        raise BasslineError(f"the study ended as {study.state}: {errors or 'see `bassline study show`'}")


def _describe_budget(document: StudyDocument) -> str:
    answer = document.at_budget
    assert answer is not None
    study = document.study
    text = to_text(describe_answer(answer, MeasuredTasks(study.tasks_common, study.dataset, study.dataset_tasks)))
    if answer.one_second_more is not None:
        text += f" One more second: {format_points(answer.one_second_more, study.tasks_common)} points."
    return text
