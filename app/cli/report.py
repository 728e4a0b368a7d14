"""A run's figures and what a study says, as the commands print them."""

from __future__ import annotations

import uuid

from app.annotations import schemas as annotation
from app.cli import common
from app.core.context import Context
from app.core.errors import BasslineError
from app.core.states import OPEN_RUN_STATES, RunState
from app.runs import caveats, configuration
from app.runs.documents import dump_run, to_plain_json
from app.runs.failures import FailureCounts, count_failed_samples
from app.runs.figures import compute_curve, load_stored_curve
from app.runs.models import Run
from app.runs.presentation import build_scores
from app.runs.repository import RunProgress, compute_progress, get_run, load_measured_tasks
from app.studies import documents, progress
from app.studies import report as study_report
from app.studies.analysis import analyse_study
from app.studies.documents import StudyDocument
from app.studies.repository import get_study
from app.studies.sentences import MeasuredTasks, describe_answer, to_text
from app.web.ui.units import format_percent, format_points
from evaluation.decisions import MARGIN
from evaluation.metrics import Curve


def print_run(ctx: Context, run_id: uuid.UUID, json_file: str | None) -> Run:
    """Writes the JSON of a run and prints its configuration, progress and figures. Returns it."""
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        counts, failed = compute_progress(session, run), count_failed_samples(session, [run_id])
        curve = load_stored_curve(run.curve) if run.curve else compute_curve(run, load_measured_tasks(session, run_id))
    common.write_json(json_file, dump_run(run))
    console = common.choose_console(json_file)
    rows = [
        ("Run", str(run.id)),
        *configuration.list_configuration(run),
        ("Measured on", f"{run.device_label}, {run.provenance.get('dtype') or run.dtype}"),
        ("Tasks asked for", _format_progress(run, counts)),
        *annotation.list_annotations(run.note, archived=run.archived),
        *([("Error", run.error)] if run.error else []),
    ]
    console.print(common.build_pairs(f"{run.name}  ({run.state})", rows))
    console.print()
    if run.measured.samples:
        console.print(common.build_pairs("Figures", _list_figures(run, curve, failed)))
    else:
        console.print("No figures: no task is finished.")
    return run


def _format_progress(run: Run, counts: RunProgress) -> str:
    text = f"{run.n_tasks}: {counts.decoded} decoded"
    if run.graded:
        text += f", {counts.finished} graded"
    if counts.left:
        text += f", {counts.left} left"
    return f"{text}; `bassline runs resume {run.id}` finishes it" if counts.resumable else text


def _list_figures(run: Run, curve: Curve, failed: FailureCounts) -> list[tuple[str, str]]:
    """The scores of the run's page and what they are over; `failed` are the samples of the run that did not pass."""
    f = run.measured
    untimed = "not measured: the samples have no finish times"
    scores = build_scores(curve, f, run.budget_s)
    rows: list[tuple[str, str | None]] = [
        ("Tasks", _describe_coverage(run)),
        ("At a budget", untimed if f.pass_first is None and f.pass_at_1 is not None else None),
        *((score.label, f"{score.value} {score.unit}  {score.note}") for score in scores),
        ("Weak or unstated", caveats.describe_without_left_out(f)),
        ("By judge", caveats.describe_judges(f)),
    ]
    if trust := caveats.describe_forgeable_share(f):
        # Unknown for runs that ended before they were counted.
        first, every = (format_percent(share, f.tasks) for share in (f.pass_first_proxy, f.pass_all_proxy))
        rows += [("Trust", trust), ("Without those passes", f"Pass@First {first}, Pass@All {every}")]
    rows += [
        ("Samples", f"{f.samples}, {f.samples_finished} finished in time, {f.samples_passed} passed"),
        ("Failed samples", failed.in_words if run.graded and failed.failed else None),
        ("Tokens per second", common.format_number(f.tokens_per_s)),
        ("Largest overrun", common.format_number(f.budget_overrun_max_s, " s", 3)),
        *(("Clock disturbed", mark) for mark in f.clock_marks or ()),
    ]
    return [(label, text) for label, text in rows if text is not None]


def _describe_coverage(run: Run) -> str:
    f = run.measured
    not_graded = max(0, f.tasks_decoded - f.tasks - f.tasks_sandbox_error)
    not_taken_up = f.tasks_selected - f.tasks - f.tasks_failed - f.tasks_sandbox_error - not_graded
    why = "the time limit came first" if run.state is RunState.FINISHED else str(run.state)
    left_out = {
        "failed": f.tasks_failed,
        "with a sandbox fault": f.tasks_sandbox_error,
        "excluded, their own solution fails": f.tasks_excluded,
        "decoded and not graded": not_graded,
        f"requested and not done ({why})": max(0, not_taken_up),
    }
    reasons = "".join(f", {count} {reason}" for reason, count in left_out.items() if count)
    return f"{f.tasks} of the {f.dataset_tasks} in {run.dataset.name}{reasons}"


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
    console.print(common.build_pairs(heading, study_report.list_facts(document)))
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
