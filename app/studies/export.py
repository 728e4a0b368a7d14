"""A study as a file: JSON, a CSV of every arm at every budget, a Markdown report, or its archive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, get_args

from sqlalchemy.orm import Session

from app.core.db.database import Database
from app.runs.schemas import ArmOptions
from app.studies import archive, documents, progress, report
from app.studies.analysis import StudyAnalysis
from app.studies.documents import StudyDocument
from app.studies.models import Study
from app.web.ui import tables
from app.web.ui.tables import escape_markdown, fence_markdown, format_markdown_table
from evaluation.studies.analysis import ArmCurve

Format = Literal["json", "csv", "markdown", "archive"]
FORMATS: tuple[Format, ...] = get_args(Format)
MEDIA_TYPES = {
    "json": ("application/json", "json"),
    "csv": ("text/csv", "csv"),
    "markdown": ("text/markdown", "md"),
    "archive": ("application/gzip", "json.gz"),
}
"""The media type of each format, and what the name of a file in it ends with."""

SPEEDS = ("ms_per_token_first", "ms_per_token_last", "ms_per_token_all")
"""Of the first and the last sample that finishes, and of all: the mean over the tasks (BASS, section 4.1)."""
MEASURED_COLUMNS = ("device", "clock_marks", "tasks", *SPEEDS)
CURVE_COLUMNS = (
    "budget_s",
    "pass_first",
    "pass_first_low",
    "pass_first_high",
    "pass_all",
    "pass_all_low",
    "pass_all_high",
)


def export_study(
    database: Database, session: Session, study: Study, form: str, analyse: Callable[[], StudyAnalysis]
) -> Iterator[bytes]:
    """The study as a file in this format, one of FORMATS; an archive is read as it is taken.

    `session`, which has read the study, may be closed after the call. Raises ConflictError for the archive of an open
    study.
    """
    if form == "archive":
        return archive.write_archive(database, study)
    return iter([_render_study(session, study, form, analyse())])


def _render_study(session: Session, study: Study, form: str, said: StudyAnalysis) -> bytes:
    document = documents.build_document(study, said, progress.compute_study_progress(session, study))
    if form == "csv":
        return format_study_csv(document, said).encode()
    return (
        format_study_markdown(document) if form == "markdown" else document.model_dump_json(indent=2) + "\n"
    ).encode()


def format_study_csv(document: StudyDocument, analysis: StudyAnalysis) -> str:
    """Rows of each compared arm: its options, and its shares (0 to 1), valid until the budget of its next row.

    An arm has a row at every budget (seconds) at which one of its shares changes, and at round ones.
    """
    rows: list[Iterable[object]] = [("arm", "run_id", *ArmOptions.model_fields, *MEASURED_COLUMNS, *CURVE_COLUMNS)]
    if analysis.statistics is not None:
        speeds = {row.arm: row for row in analysis.statistics.paper_table}
        for one in analysis.statistics.curves:
            arm = next(arm for arm in document.arms if arm.name == one.arm)
            options = (arm.configuration[option] for option in ArmOptions.model_fields)
            speed = (getattr(speeds[arm.name], name) for name in SPEEDS)
            measured = (document.study.device, " ".join(arm.marks), document.study.tasks_common, *speed)
            rows += _build_csv_rows((arm.name, arm.run_id, *options, *measured), one, analysis.statistics.budgets)
    return tables.as_csv(rows)


def format_study_markdown(document: StudyDocument) -> str:
    """The report as GitHub's Markdown. Names are text there: no markup, links or HTML."""
    parts = [f"# {escape_markdown(document.study.name)}", escape_markdown(document.disturbance + document.sentence)]
    facts = [(label, value) for label, value in report.list_facts(document) if label != report.COMMAND]
    parts.append("\n".join(f"- {label}: {escape_markdown(value)}" for label, value in facts))
    if document.study.command:
        parts += ["The same study again:", fence_markdown(document.study.command)]
    for section in report.list_tables(document):
        rows = [tuple(map(escape_markdown, row)) for row in section.rows]
        headings = tuple(map(escape_markdown, section.headings))
        parts += [f"## {escape_markdown(section.title)}", escape_markdown(section.note)]
        parts.append(format_markdown_table(headings, rows))
    parts += [
        "## Configurations",
        "\n".join(
            f"- {escape_markdown(a.name)}: {escape_markdown(report.format_configuration(a))}" for a in document.arms
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _build_csv_rows(head: Sequence[object], one: ArmCurve, budgets: Sequence[float]) -> Iterator[Iterable[object]]:
    for budget in sorted({*one.curve.budgets, *budgets}):
        (first, of_first), (every, of_all) = one.get_shares_at(budget)
        yield (*head, budget, first, *of_first, every, *of_all)
