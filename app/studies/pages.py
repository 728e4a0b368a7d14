"""Pages of studies: the list, one study with its tabs, and the form for a new one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as AnyResponse

from app.annotations.pages import AnnotationPages, is_asking_for_archived
from app.core.errors import BadInputError, ConflictError
from app.core.states import OPEN_RUN_STATES, Scope
from app.datasets import repository as datasets
from app.datasets.service import BUILTIN
from app.language_models.service import list_drafters_without_model
from app.runs.failures import count_failed_samples
from app.runs.forms import parse_budget, parse_margin
from app.runs.labels import list_setting_words, shorten_labels
from app.runs.quiet import QUIET_LIMIT_S
from app.studies import audit, documents, forms, report, repository, service
from app.studies.analysis import AnalysisCache, StudyAnalysis
from app.studies.documents import require_measured_budget
from app.studies.loading import has_unloaded_reference, load_reference_studies
from app.studies.models import Study
from app.studies.progress import ArmProgress, compute_remaining_s, compute_run_progress, compute_study_progress
from app.studies.sentences import describe_answer, format_verdict
from app.web.http.request_context import get_context, get_session, get_singleton, parse_id
from app.web.http.security import require_scope
from app.web.ui.charts.chart import Chart, LineCurve, choose_figure, choose_opening_budget, draw_comparison
from app.web.ui.tables import TextTable
from app.web.ui.units import format_exact, format_seconds
from evaluation.decisions import MARGIN
from evaluation.studies.analysis import Analysis


def shorten_arm_names(study: Study) -> dict[str, str]:
    """The label of each arm, by its name."""
    names = [arm.name for arm in study.arms]
    return dict(zip(names, shorten_labels(names, list(map(list_setting_words, study.runs))), strict=True))


def draw_arms(study: Study, statistics: Analysis, budget: float) -> Chart:
    """The curves of the arms."""
    labels = shorten_arm_names(study)
    positions = {arm.name: arm.position for arm in study.arms}
    lines = [
        LineCurve(f"arm-{positions[one.arm]}", "", labels[one.arm], positions[one.arm], one.curve)
        for one in statistics.curves
    ]
    return draw_comparison(lines, choose_figure(lines), len(statistics.tasks_common), budget)


bp = Blueprint("studies", __name__)

PAGE_SIZE = 20
TABS = {"answer": "Answer", "details": "Details", "arms": "Arms"}
MAX_EXPANDED_ARMS = 6  # with at most so many arms, their progress is expanded


@bp.get("/studies")
def index() -> str:
    """Studies, newest first, with `?archived=1` archived ones too; `?before=` a study's id gives the next page."""
    before, archived = parse_id("before", "study"), is_asking_for_archived()
    studies = repository.list_studies(get_session(), limit=PAGE_SIZE + 1, before=before, archived=archived)
    following = studies[PAGE_SIZE - 1].id if len(studies) > PAGE_SIZE else None
    studies = studies[:PAGE_SIZE]
    return render_template(
        "studies/index.html",
        studies=studies,
        progress=compute_run_progress(get_session(), [arm.run_id for study in studies for arm in study.arms]),
        following=following,
        reference=has_unloaded_reference(get_context()),
        archived=archived,
    )


@bp.get("/studies/<uuid:study_id>")
def show(study_id: uuid.UUID) -> str:
    """One tab (`?tab=`) of a study at `?budget=` seconds (default: choose_opening_budget) by `?margin=` points."""
    study = repository.get_study(get_session(), study_id)
    is_open = study.state in OPEN_RUN_STATES
    # While it works an older one will do, so that the page does not slow what is measured.
    analysis = get_singleton(AnalysisCache).get(get_session(), study, allow_stale=is_open)
    statistics, progress = analysis.statistics, compute_study_progress(get_session(), study)
    tabs = TABS if statistics else {"arms": TABS["arms"]}
    tab = next((tab for tab in tabs if tab == request.args.get("tab")), next(iter(tabs)))
    budget, margin, error = _parse_choices(study, statistics)
    document = documents.build_document(study, analysis, progress, budget, margin)
    return render_template(
        f"studies/{tab}.html",
        study=study,
        study_open=is_open,
        document=document,
        progress=progress,
        remaining_s=compute_remaining_s,
        resumable=not is_open and _is_resumable(study, progress),
        said=analysis,
        found=statistics,
        curves={one.arm: one for one in statistics.curves} if statistics else {},
        labels=shorten_arm_names(study),
        runs={arm.name: arm.run_id for arm in study.arms},
        notes=report.format_notes,
        later=_describe_later_answer(study, analysis, budget),
        tables=_list_tables(study, document, tab),
        sentences=describe_answer(document.at_budget, documents.get_measured_tasks(study, statistics))
        if statistics and document.at_budget
        else [],
        verdict=format_verdict,
        chart=draw_arms(study, statistics, budget) if statistics and tab == "answer" else None,
        downloads=_list_downloads(study),
        few=MAX_EXPANDED_ARMS,
        tab=tab,
        tabs=tabs,
        budget=budget,
        grid=statistics.budgets if statistics else (),
        error=error,
        asked_margin=None if margin == MARGIN else format_exact(round(100 * margin, 6)),
        **annotation_pages.build_template_values(study_id),
    )


annotation_pages = AnnotationPages(bp, "study_id", ("tab", "budget", "margin"), service.annotate)


@bp.get("/studies/of/<uuid:run_id>")
def redirect_to_study(run_id: uuid.UUID) -> AnyResponse:
    """The study of which the run is an arm. Raises NotFoundError for a run that is not an arm."""
    return redirect(url_for("studies.show", study_id=repository.get_study_id(get_session(), run_id)))


@bp.get("/studies/new")
def new() -> str:
    """The form with a small grid, or with the values in the address, such as `?target=...&n=1&n=8`."""
    values = forms.get_initial_values()
    if any(name in request.args for name in forms.PRESET_OPTIONS):
        values["preset"] = ""
    for name in request.args:
        values.setlist(name, request.args.getlist(name))
    return _render_form(values, forms.parse_study_form(get_context(), values), {})


@bp.post("/studies/new")
@require_scope(Scope.SUBMIT)
def create() -> AnyResponse | str | tuple[str, int]:
    """Submits the study and shows it; with the button Preview shows its arms. An invalid form is shown again."""
    filled = forms.parse_study_form(get_context(), request.form)
    if "preview" in request.form:
        return _render_form(request.form, filled, {})
    if filled.spec is None:
        return _render_form(request.form, filled, filled.errors), 422
    return redirect(url_for("studies.show", study_id=service.submit(get_context(), filled.spec)), 303)


@bp.post("/studies/reference")
@require_scope(Scope.SUBMIT)
def load() -> AnyResponse:
    """Loads the reference studies of this installation, and shows the first."""
    return redirect(url_for("studies.show", study_id=load_reference_studies(get_context())[0]), 303)


@bp.post("/studies/<uuid:study_id>/cancel")
@require_scope(Scope.SUBMIT)
def cancel(study_id: uuid.UUID) -> AnyResponse:
    """Ends every arm; samples are kept."""
    service.cancel(get_context(), study_id)
    return redirect(url_for("studies.show", study_id=study_id), 303)


@bp.post("/studies/<uuid:study_id>/resume")
@require_scope(Scope.SUBMIT)
def resume(study_id: uuid.UUID) -> AnyResponse:
    """Reopens the arms that have ended with tasks left."""
    service.resume(get_context(), study_id)
    return redirect(url_for("studies.show", study_id=study_id), 303)


@bp.post("/studies/<uuid:study_id>/delete")
@require_scope(Scope.ADMIN)
def delete(study_id: uuid.UUID) -> AnyResponse:
    """Removes the study and the runs of its arms."""
    service.delete(get_context(), study_id)
    return redirect(url_for("studies.index"), 303)


def _render_form(values: MultiDict[str, str], filled: forms.ParsedStudyForm, errors: dict[str, str]) -> str:
    known = {*BUILTIN, *(dataset.name for dataset in datasets.list_datasets(get_session()))}
    further, shared = forms.build_list_fields(), forms.build_shared_fields(sorted(known))
    folded = [field.name for field in shared if field.advanced]
    return render_template(
        "studies/new.html",
        values=values,
        chosen={name: forms.get_selected_values(values, name) for name in ("target", "drafter", "n")},
        filled=filled,
        errors=errors,
        labels=forms.LABELS,
        quiet_limit=format_seconds(QUIET_LIMIT_S),
        questions=forms.list_questions(),
        models=forms.list_model_choices(),
        drafters=list_drafters_without_model(),
        shared=shared,
        shared_used="race" in values or any(values.get(name, "0") not in ("", "0") for name in folded),
        further=further,
        further_used=any(values.get(one.name) for one in further),
    )


def _parse_choices(study: Study, statistics: Analysis | None) -> tuple[float, float, str | None]:
    """(budget, margin, what is wrong with them in the address); what is wrong keeps its default."""
    curves = [one.curve for one in statistics.curves] if statistics else []
    budget, margin = choose_opening_budget(curves, study.budget_s), MARGIN
    try:
        asked_s = parse_budget(request.args.get("budget")) or budget
        require_measured_budget(study, asked_s)
        budget = asked_s
        margin = parse_margin(request.args.get("margin"))
    except BadInputError as problem:
        return budget, margin, str(problem)
    return budget, margin, None


def _list_tables(study: Study, document: documents.StudyDocument, tab: str) -> list[TextTable]:
    if tab == "details":
        return report.list_detail_tables(document)
    if tab == "arms" or not document.answer:
        return []
    return [
        *_list_audit_tables(study),
        report.build_answers_table(document),
        *report.list_engine_tables(document),
        report.build_reached_table(document),
    ]


def _describe_later_answer(study: Study, analysis: StudyAnalysis, budget: float) -> str:
    """When the first right answer came, if none came within the budget, or why none did; "" if one did."""
    if analysis.statistics is None or analysis.statistics.answer_at(budget).arm is not None:
        return ""
    first_s = analysis.statistics.compared.first_right_s
    if first_s is not None:
        return f"The first comes within {format_seconds(first_s)}."
    runs = [arm.run_id for arm in study.arms if arm.name in analysis.compared]
    return count_failed_samples(get_session(), runs).advice


def _is_resumable(study: Study, progress: Mapping[uuid.UUID, ArmProgress]) -> bool:
    """Whether Resume would find work in an ended study: an arm that was not dropped has tasks left."""
    return not study.measured_elsewhere and any(
        arm.dropped_at is None and progress[arm.run_id].finished < arm.run.n_tasks for arm in study.arms
    )


def _list_audit_tables(study: Study) -> list[TextTable]:
    """What an audit has found once it has ended; nothing for another study."""
    if study.state in OPEN_RUN_STATES or not audit.is_audit(study):
        return []
    try:
        return audit.list_audit_tables(audit.build_audit_document(get_session(), study))
    except ConflictError:  # no text is in all passes
        return []


def _list_downloads(study: Study) -> list[tuple[str, str]]:
    base = f"/api/v1/studies/{study.id}"
    return [
        ("Everything, JSON", base),
        ("Tables, CSV", f"{base}/export?format=csv"),
        ("Report, Markdown", f"{base}/export?format=markdown"),
        ("All samples, to load elsewhere", f"{base}/export?format=archive"),
    ]
