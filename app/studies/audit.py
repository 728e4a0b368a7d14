"""An audit: a study whose arms decode with and without speculation, each of them twice, greedily and with sampling."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from pydantic import Field, JsonValue
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.db.storable import DisplayName, InputText
from app.core.errors import ConflictError
from app.core.remote.target import is_remote
from app.core.states import PASSED, SANDBOX_ERROR, RunState
from app.datasets.models import Task
from app.runs.models import Run, RunTask
from app.runs.options import Fieldset, Option, get_options
from app.runs.schemas import MAX_N, MAX_TOKENS, SampleOptions, TaskChoice
from app.samples.models import FINISHED_REASONS, Sample
from app.studies.models import Study
from app.studies.report import format_difference
from app.studies.schemas import StudySpec
from app.web.http.schemas import ResponseModel, parse_spec
from app.web.ui.tables import TextTable
from app.web.ui.units import format_percent
from evaluation.losslessness import (
    GREEDY,
    SAMPLED,
    AuditedDecoding,
    AuditedText,
    AuditError,
    AuditVerdict,
    FirstDifference,
    Key,
    audit_decoding,
    find_worst,
)

SIDES = ("off", "off again", "on", "on again")
MAX_SHOWN = 10  # texts that differ, in a table
MAX_DIFFERING_TEXTS = 50  # that a document lists
EXCERPT = 80  # characters from the first difference on, and half as many before it
_SERVER_FACTS = ("target", "endpoint", "device", "device_name", "dtype", "target_sha256", "n_requests", "extra_body")


class AuditSpec(TaskChoice, SampleOptions):
    """Two servers with the same model, without and with speculation; the body of POST /api/v1/audits."""

    off: Annotated[InputText, Option("Without speculation", Fieldset.MODEL)] = Field(
        min_length=1, max_length=500, description="the target without speculation, as for a run"
    )
    on: Annotated[InputText, Option("With speculation", Fieldset.MODEL)] = Field(
        min_length=1, max_length=500, description="the target with speculation; the same if this machine decodes it"
    )
    drafter: Annotated[InputText, Option("Drafter", Fieldset.DECODING)] = Field(
        "sibling", max_length=500, description="of the side with speculation, if this machine decodes it"
    )
    dtype: Annotated[InputText, Option("Dtype", Fieldset.DECODING)] = Field(
        "auto", description="of the weights, if this machine decodes; float32 leaves rounding out"
    )
    n: Annotated[int, Option("Samples per task", Fieldset.SAMPLES)] = Field(
        2, ge=1, le=MAX_N, description="sampled texts per task, in addition to the greedy one"
    )
    max_tokens: Annotated[int, Option("Max tokens per sample", Fieldset.SAMPLES)] = Field(
        256, ge=1, le=MAX_TOKENS, description="a text ends after this many tokens"
    )
    temperature: Annotated[float, Option("Temperature", Fieldset.SAMPLES)] = Field(
        0.8, gt=0, le=10, description="of the sampled texts"
    )
    budget_s: Annotated[float, Option("Budget per task", Fieldset.SAMPLES)] = Field(
        60.0, gt=0, le=3600, description="seconds of wall clock per task; a text that is cut off tells less"
    )
    name: DisplayName = Field("", max_length=200, description="the name in lists")

    def build_study(self) -> StudySpec:
        """The study with the audit's arms. Raises BadInputError."""
        shared = self.model_dump(include={"max_tokens", "top_p", "prompt_mode"})
        arms: list[dict[str, Any]] = []
        for decoding, options in ((GREEDY, {"temperature": 0.0, "n": 1}), (SAMPLED, {"n": self.n})):
            for side in SIDES:
                target = self.off if side.startswith("off") else self.on
                own: dict[str, Any] = {}
                if not is_remote(target):
                    own = {"dtype": self.dtype, "drafter": "none" if side.startswith("off") else self.drafter}
                sampling = {"temperature": self.temperature, **options}
                arms.append({**shared, **sampling, **own, "target": target, "name": _name_arm(decoding, side)})
        study = self.model_dump(include={*TaskChoice.model_fields, "budget_s", "seed"})
        name = self.name or f"audit of {self.on}"[:200]
        return parse_spec(StudySpec, {**study, "name": name, "arms": arms})

    def build_command(self) -> str:
        """The `bassline audit` that repeats it."""
        words = ["bassline", "audit"]
        for name, value in self.model_dump(exclude_defaults=True).items():
            flag = get_options(AuditSpec)[name].flag if name in get_options(AuditSpec) else f"--{name}"
            values = value if isinstance(value, tuple) else (value,)
            words += [flag] if value is True else [word for each in values for word in (flag, str(each))]
        return shlex.join(words)


class DifferingText(ResponseModel):
    """A text that speculation changes, from shortly before the first difference."""

    task_id: str
    index: int
    decoding: str
    position: int = Field(description="of the first different token")
    near_tie: bool = Field(description="whether both tokens are nearly as likely, so that rounding may have decided")
    off: str
    on: str


class AuditDocument(ResponseModel):
    """Whether speculation changes what a server writes. The figures at the top belong to the worst decoding."""

    study_id: uuid.UUID
    name: str
    state: RunState
    dataset: str
    verdict: AuditVerdict
    sentence: str
    changed_share: float
    noise_share: float
    first_difference: dict[str, int]
    pass_at_1_difference: float | None
    pass_at_1_interval: tuple[float, float] | None
    decodings: list[AuditedDecoding]
    tasks: list[DifferingText]
    profiles: dict[str, dict[str, JsonValue]] = Field(description="what each side's server said and did, off and on")
    command: str


class _StoredText(NamedTuple):
    raw: str
    token_ids: Sequence[int]
    token_texts: Sequence[str]
    facts: Mapping[str, Any]

    def build_text(self, kind: str) -> AuditedText:
        """The text in tokens of this kind, a field of this class."""
        return AuditedText(tokens=getattr(self, kind), **self.facts)


def is_audit(study: Study) -> bool:
    """Whether the study has the arms of an audit."""
    return [arm.name for arm in study.arms] == [_name_arm(d, side) for d in (GREEDY, SAMPLED) for side in SIDES]


def build_audit_document(session: Session, study: Study) -> AuditDocument:
    """What an audit found. Raises ConflictError for another study, and for one that has no texts yet."""
    if not is_audit(study):
        raise ConflictError("the study is not an audit: start one with `bassline audit`")
    runs = {arm.name: arm.run for arm in study.arms}
    decodings: list[AuditedDecoding] = []
    differing: list[DifferingText] = []
    for decoding in (GREEDY, SAMPLED):
        texts = [_load_texts(session, runs[_name_arm(decoding, side)].id) for side in SIDES]
        audited, differences = _audit_texts(decoding, texts)
        decodings.append(audited)
        differing += _list_differing(decoding, differences, texts[0], texts[2])
    verdict = find_worst([each.verdict for each in decodings])
    worst = next(each for each in decodings if each.verdict == verdict)
    return AuditDocument.from_row(
        worst,
        study_id=study.id,
        name=study.name,
        state=study.state,
        dataset=study.dataset.name,
        sentence=f"{worst.decoding}: {worst.sentence}",
        decodings=decodings,
        tasks=differing[:MAX_DIFFERING_TEXTS],
        profiles={side: _build_profile(runs[_name_arm(GREEDY, side)]) for side in ("off", "on")},
        command=study.command,
    )


def _audit_texts(
    decoding: str, sides: Sequence[Mapping[Key, _StoredText]]
) -> tuple[AuditedDecoding, Mapping[Key, FirstDifference]]:
    """The verdict about the texts of all SIDES and the differences, in tokens of one kind: ids of one side and texts of
    another do not compare. Raises ConflictError."""
    stored = [text for side in sides for text in side.values() if text.raw]
    kinds = (kind for kind in ("token_ids", "token_texts") if all(getattr(text, kind) for text in stored))
    kind = next(kinds, "raw")
    off, off_again, on, on_again = ({key: text.build_text(kind) for key, text in side.items()} for side in sides)
    try:
        return audit_decoding(decoding, (off, off_again), (on, on_again))
    except AuditError as error:
        raise ConflictError(f"the audit has no result for {decoding} decoding: {error}") from None


def _name_arm(decoding: str, side: str) -> str:
    return f"{decoding}, {side}"


def _load_texts(session: Session, run_id: uuid.UUID) -> Mapping[Key, _StoredText]:
    columns = (
        *(Task.task_id, Sample.index, Sample.raw, Sample.token_ids, Sample.ends, Sample.logprobs),
        *(Sample.n_tokens, Sample.finish_reason, Sample.verdict),
    )
    rows = session.execute(
        select(*columns)
        .join(RunTask, RunTask.id == Sample.run_task_id)
        .join(Task, Task.id == RunTask.task_pk)
        .where(Sample.run_id == run_id)
    )
    return {
        (task_id, index): _StoredText(
            raw,
            token_ids,
            [raw[start:end] for start, end in pairwise((0, *(ends or ())))],
            {
                "n_tokens": n_tokens,
                "logprobs": logprobs,
                "is_cut": reason not in FINISHED_REASONS,
                "passed": None if verdict in (None, SANDBOX_ERROR) else verdict == PASSED,
            },
        )
        for task_id, index, raw, token_ids, ends, logprobs, n_tokens, reason, verdict in rows
    }


def _list_differing(
    decoding: str,
    differences: Mapping[Key, FirstDifference],
    off: Mapping[Key, _StoredText],
    on: Mapping[Key, _StoredText],
) -> Sequence[DifferingText]:
    texts = []
    for (task_id, index), difference in differences.items():
        pair = off[task_id, index].raw, on[task_id, index].raw
        shared = next((i for i, (a, b) in enumerate(zip(*pair, strict=False)) if a != b), min(map(len, pair)))
        start = max(shared - EXCERPT // 2, 0)
        excerpts = (raw[start : start + EXCERPT * 3 // 2] for raw in pair)
        texts.append(
            DifferingText(
                task_id=task_id,
                index=index,
                decoding=decoding,
                position=difference.position,
                near_tie=difference.is_near_tie,
                off=next(excerpts),
                on=next(excerpts),
            )
        )
    return texts


def _build_profile(run: Run) -> dict[str, JsonValue]:
    facts = {name: value for name, value in run.provenance.items() if name.startswith("server")}
    facts |= {name: run.provenance[name] for name in _SERVER_FACTS if name in run.provenance}
    return {"target": run.target, "drafter": run.drafter, **facts}


def list_audit_tables(document: AuditDocument) -> list[TextTable]:
    """The verdict with its figures, and the first texts that speculation changes."""
    figures = TextTable(
        "Does speculation change the answers?",
        document.sentence[:1].upper() + document.sentence[1:] + ".",
        ("Decoding", "Verdict", "Texts", "On/off differ", "Off/off differ", "On/on differ", "Ties", "Pass@1 on - off"),
        tuple(
            (
                each.decoding,
                each.verdict.replace("_", " "),
                str(each.texts),
                format_percent(each.changed_share),
                format_percent(each.noise_share),
                format_percent(each.on_noise_share),
                str(each.near_ties),
                f"{difference} points" if difference else "\N{EN DASH}",
            )
            for each in document.decodings
            for difference in [format_difference(each.pass_at_1_difference, each.pass_at_1_interval)]
        ),
    )
    if not document.tasks:
        return [figures]
    texts = TextTable(
        "Texts that differ",
        "From shortly before the first different token, without and with speculation.",
        ("Task", "Sample", "Decoding", "Token", "Off", "On"),
        tuple(
            (text.task_id, str(text.index), text.decoding, str(text.position), repr(text.off), repr(text.on))
            for text in document.tasks[:MAX_SHOWN]
        ),
    )
    return [figures, texts]
