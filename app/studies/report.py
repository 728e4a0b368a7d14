"""What a study says, as titled tables of text: the command line prints them, and Markdown is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.annotations import schemas as annotation
from app.runs.options import get_options
from app.runs.schemas import ArmOptions
from app.studies.documents import ArmDocument, StudyDocument
from app.studies.sentences import format_margin, format_tasks_to_decide, format_verdict
from app.web.ui.tables import ArmName, TextTable
from app.web.ui.units import (
    format_count,
    format_decimal,
    format_exact_seconds,
    format_interval,
    format_milliseconds,
    format_percent,
    format_points,
    format_seconds,
    format_time,
    format_utilization,
)
from evaluation.decisions import PairVerdict
from evaluation.studies.paper_table import FINISHED, PaperPoint, PaperRow
from evaluation.studies.samples import FamilySamples
from evaluation.studies.speculation import Gain

RUN = "Run"
"""The heading of a column of ids."""
COMMAND = "Command"
"""The label of the command that repeats a study."""


def list_facts(document: StudyDocument) -> list[tuple[str, str]]:
    """What the study is, as label and value."""
    study = document.study
    rows = [
        ("Study", str(study.id)),
        ("Dataset", f"{study.dataset}, {format_count(study.tasks_common, 'task')} that all compared arms have graded"),
        ("Budget", f"{format_seconds(study.budget_s)} per task, seed {study.seed}"),
        ("Measured on another machine", study.measured_elsewhere)
        if study.measured_elsewhere
        else ("Measured on", study.device),
    ]
    if study.block_tasks > 1:
        rows.append(("Turns", f"every {study.block_tasks} tasks, because the engines could not be loaded together"))
    if study.command:
        rows.append((COMMAND, study.command))
    rows += annotation.list_annotations(study.note, archived=study.archived)
    return rows


def list_tables(document: StudyDocument) -> list[TextTable]:
    """The tables that have something to say, the answer first."""
    answer = [build_answers_table(document), build_reached_table(document)] if document.answer else []
    return [*answer, *list_engine_tables(document), *list_detail_tables(document), _build_arms_table(document)]


def list_engine_tables(document: StudyDocument) -> list[TextTable]:
    """The engines of the arms and how to start them; no table without other servers."""
    if not document.engines:
        return []
    n = document.study.tasks_common
    rows = tuple(
        (
            ArmName(row.arm),
            row.engine,
            row.speculation or "not known",
            format_percent(row.pass_first, n),
            format_percent(row.pass_all, n),
            format_decimal(row.tokens_per_s, 1),
            format_seconds(row.first_token_s),
            format_decimal(row.acceptance_length),
            "" if row.changed_share is None else format_percent(row.changed_share),
            row.start,
        )
        for row in document.engines
    )
    return [
        TextTable(
            "Engines",
            f"Pass@First and Pass@All within {format_exact_seconds(document.study.budget_s)}, tokens per second, "
            "the median time to a sample's first token, tokens per round by the server's own counts, the share of "
            "texts that differ from the same engine's without speculation (noise of the engine included: an audit "
            "tells), and what to start.",
            ("Arm", "Engine", "Speculation", "Pass@First", "Pass@All", "Tokens/s", "First token", "Tokens/round",
             "Changed", "Start"),
            rows,
        )
    ]  # fmt: skip


def list_detail_tables(document: StudyDocument) -> list[TextTable]:
    """What is behind the answer: the paper's tables, and how many samples are enough."""
    made: list[TextTable] = []
    if document.paper_table:
        has_budget = any(point.budget_s is not None for row in document.paper_table for point in row.points)
        made += [*([_build_quality_table(document)] if has_budget else []), _build_speed_table(document.paper_table)]
    made += [_build_samples_table(family, document.study.tasks_common) for family in document.samples]
    return [*made, _build_speculation_table(document)] if any(pair.gains for pair in document.speculation) else made


def build_answers_table(document: StudyDocument) -> TextTable:
    """The arm to use at each budget, and what is shown about it."""
    n = document.study.tasks_common
    rows = tuple(
        (
            format_exact_seconds(one.budget_s),
            ArmName(one.use or "none"),
            format_share(one.use_pass_first, one.use_interval, n),
            format_percent(one.use_pass_all, n),
            format_verdict(one),
            ArmName(one.against or ""),
            format_difference(one.difference, one.difference_interval, n),
            format_tasks_to_decide(one.tasks_to_decide) if one.tasks_to_decide else "",
        )
        for one in document.answer
    )
    return TextTable(
        "Answer",
        "The arm to use at each budget, with its 95 % interval: the highest Pass@First, or a cheaper arm that is shown "
        f"to be at most {format_margin(document.answer[0].margin)} worse. Where that is undecided it is the best so "
        "far. The verdict and the difference in points, with an interval for all budgets and pairs together, are "
        "against the arm in the next column; so many tasks would decide a difference of "
        f"{format_margin(document.answer[0].margin)}.",
        ("Budget", "Use", "Pass@First", "Pass@All", "Verdict", "Against", "Difference", "Tasks to decide"),
        rows,
    )


def format_difference(value: float | None, bounds: tuple[float, float] | None, n_tasks: int = 0) -> str:
    """A difference in points with its interval: `+2 (−9 to +13)`; empty for none."""
    if value is None or bounds is None:
        return ""
    return f"{format_points(value, n_tasks)} ({' to '.join(format_points(limit, n_tasks) for limit in bounds)})"


def build_reached_table(document: StudyDocument) -> TextTable:
    """The time that a share of the tasks takes."""
    never = f"not reached within {format_exact_seconds(document.study.budget_s)}"
    return TextTable(
        "Time for a share of the tasks",
        "The smallest budget at which Pass@First of an arm is the share.",
        ("Pass@First", "Budget", "Arm"),
        tuple(
            (
                format_percent(one.share),
                never if one.budget_s is None else format_seconds(one.budget_s),
                ArmName(one.arm or ""),
            )
            for one in document.reached
        ),
    )


def _build_quality_table(document: StudyDocument) -> TextTable:
    # A share that regular decoding never finishes has no budget, so it has no columns.
    shares = [
        (place, share)
        for place, share in enumerate(FINISHED)
        if any(row.points[place].budget_s is not None for row in document.paper_table)
    ]
    rows = [row for row in document.paper_table if any(point.budget_s is not None for point in row.points)]
    headings = ["Arm"]
    for _, share in shares:
        headings += [f"{format_percent(share)} at", "First", "All", "Finished"]
    return TextTable(
        "Regular decoding, single-sequence and batched speculation: quality",
        "At the budgets within which regular decoding finishes "
        f"{' and '.join(format_percent(share) for _, share in shares)} of its samples: Pass@First, Pass@All, "
        "and how many of its own samples the arm has finished.",
        tuple(headings),
        tuple(
            (
                ArmName(row.arm),
                *(text for at, _ in shares for text in _format_point(row.points[at], document.study.tasks_common)),
            )
            for row in rows
        ),
    )


def _format_point(point: PaperPoint, n_tasks: int) -> tuple[str, ...]:
    shares = (
        format_percent(point.pass_first, n_tasks),
        format_percent(point.pass_all, n_tasks),
        format_percent(point.finished),
    )
    return format_seconds(point.budget_s), *shares


def _build_speed_table(rows: Sequence[PaperRow]) -> TextTable:
    return TextTable(
        "Regular decoding, single-sequence and batched speculation: speed",
        "Milliseconds per token of the first sample to finish, of the last one and of all; how many times faster all "
        "are than in regular decoding; tokens per second, and per round and sample; the target's "
        "arithmetic as a share of what the device can do.",
        ("Arm", "Method", "First", "Last", "All", "Speed-up", "Tokens/s", "Tokens/round", "Utilization"),
        tuple(
            (
                ArmName(row.arm),
                row.method,
                format_milliseconds(row.ms_per_token_first),
                format_milliseconds(row.ms_per_token_last),
                format_milliseconds(row.ms_per_token_all),
                format_decimal(row.speed_up),
                format_decimal(row.tokens_per_s, 1),
                format_decimal(row.mean_acceptance_length),
                format_utilization(row.utilization),
            )
            for row in rows
        ),
    )


def _build_samples_table(family: FamilySamples, n_tasks: int) -> TextTable:
    rows = [
        (
            f"n = {n}",
            *(
                f"{format_percent(cell.pass_first, n_tasks)} / {format_percent(cell.pass_all, n_tasks)}"
                f"{' (best)' if cell.best else ''}"
                for cell in cells
            ),
        )
        for n, cells in zip(family.ns, family.rows, strict=True)
    ]
    first = map(_format_enough, family.enough_first, family.verdict_first)
    every = map(_format_enough, family.enough_all, family.verdict_all)
    rows.append(("enough", *map(" / ".join, zip(first, every, strict=True))))
    return TextTable(
        f"How many samples: {family.target}, {family.drafter}",
        "Pass@First / Pass@All within each budget; enough is the best n, or a cheaper one that is shown to be as good; "
        "? where that is not decided.",
        ("Samples", *(format_exact_seconds(budget) for budget in family.budgets)),
        tuple(rows),
    )


def _build_speculation_table(document: StudyDocument) -> TextTable:
    n = document.study.tasks_common
    rows = tuple(
        (
            ArmName(pair.speculative),
            ArmName(pair.plain),
            format_exact_seconds(gain.budget_s),
            f"{format_percent(gain.plain, n)} → {format_percent(gain.speculative, n)}",
            format_difference(gain.gained, gain.gained_interval, n),
            _format_saved(gain),
        )
        for pair in document.speculation
        for gain in pair.gains
    )
    return TextTable(
        "What speculation gains",
        "Points of Pass@First gained within the same budget, and the seconds by which speculation reaches the same "
        "Pass@First sooner; 95 % intervals over tasks, of the points for all budgets and arms together.",
        ("Arm", "Regular decoding", "Budget", "Pass@First", "Points gained", "Seconds saved"),
        rows,
    )


def format_share(value: float, bounds: tuple[float, float], n_tasks: int) -> str:
    """A share with its 95 % interval: `43 % (16 to 71)`."""
    return f"{format_percent(value, n_tasks)} ({format_interval(bounds, n_tasks)})"


def _build_arms_table(document: StudyDocument) -> TextTable:
    return TextTable(
        "Arms",
        "Each is a run of its own.",
        ("Arm", "State", "Tasks", RUN, "Notes"),
        tuple((arm.name, str(arm.state), f"{arm.tasks} of {arm.n_tasks}", str(arm.run_id), format_notes(arm))
              for arm in document.arms),
    )  # fmt: skip


def format_notes(arm: ArmDocument, names: Mapping[str, str] | None = None) -> str:
    """Why an arm was dropped or failed, or why its times cannot be trusted; else empty.

    `names` is what to call other arms, their full names by default.
    """
    said = []
    if arm.dropped_at is not None:
        better = (names or {}).get(arm.dropped_by or "", arm.dropped_by)
        said.append(
            f"dropped after {format_count(arm.dropped_after or 0, 'task')}, {format_time(arm.dropped_at)}: {better} is "
            "better at every budget of interest"
        )
    if arm.error:
        said.append(arm.error)
    return "; ".join([*said, *arm.marks])


def format_configuration(arm: ArmDocument) -> str:
    """All options of an arm in one line."""
    options = get_options(ArmOptions)
    return ", ".join(f"{name} {options[name].format_value(value)}" for name, value in arm.configuration.items())


def _format_saved(gain: Gain) -> str:
    if gain.saved_s is None:
        return "none: never reaches it"
    low, high = ("no bound" if limit is None else format_decimal(limit) for limit in gain.saved_interval)
    return f"{format_decimal(gain.saved_s)} ({low} to {high})"


def _format_enough(n: int | None, verdict: PairVerdict | None) -> str:
    return "none right" if n is None else f"n = {n}{'?' if verdict == 'undecided' else ''}"
