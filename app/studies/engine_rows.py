"""What a study says about the engines of its arms, beside the answer: speed, acceptance, and which texts change."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.remote.target import is_remote, parse_target
from app.runs.models import Run, RunTask
from app.samples.models import FINISHED_REASONS, Sample
from app.web.http.schemas import ResponseModel
from evaluation.studies.analysis import Analysis

OWN_ENGINE = "Bassline"
PLAIN = "none"


class EngineRow(ResponseModel):
    """One arm of a study in which other servers take part; the shares of tasks are at the study's budget."""

    arm: str
    engine: str = Field(description="the server, as it calls itself, with its version")
    speculation: str = Field(description="its kind, as far as it is known")
    pass_first: float | None
    pass_all: float | None
    tokens_per_s: float | None
    first_token_s: float | None = Field(description="median over samples, from the request on")
    acceptance_length: float | None = Field(description="tokens per round, by the server's own counts")
    changed_share: float | None = Field(
        description="texts that the same engine writes otherwise without speculation; null without such an arm"
    )
    changed_against: str | None = Field(description="the arm without speculation")
    start: str = Field(description="the command that starts the server, or the options of our own engine")


class _EngineText(NamedTuple):
    raw: str
    is_cut: bool
    first_token_s: float | None


Texts = Mapping[tuple[uuid.UUID, int], _EngineText]


def build_engine_rows(session: Session, arms: Mapping[str, Run], found: Analysis | None) -> tuple[EngineRow, ...]:
    """A row for each arm by its name; none for a study of our own engine alone."""
    if not any(is_remote(run.target) for run in arms.values()):
        return ()
    texts = {name: _load_texts(session, run.id) for name, run in arms.items()}
    shares = {one.arm: one.curve.get_shares_at(found.budgets[-1]) for one in found.curves} if found else {}
    rows = []
    for name, run in arms.items():
        plain = _find_plain(name, arms)
        first, every = shares.get(name, (None, None))
        starts = [text.first_token_s for text in texts[name].values() if text.first_token_s is not None]
        rows.append(
            EngineRow(
                arm=name,
                engine=" ".join(filter(None, (_name_engine(run), str(run.provenance.get("server_version") or "")))),
                speculation=_name_speculation(run),
                pass_first=first,
                pass_all=every,
                tokens_per_s=run.measured.tokens_per_s,
                first_token_s=median(starts) if starts else None,
                acceptance_length=run.measured.mean_acceptance_length,
                changed_share=None if plain is None else _compute_changed_share(texts[plain], texts[name]),
                changed_against=plain,
                start=_describe_start(run),
            )
        )
    return tuple(rows)


def is_speculative(run: Run) -> bool:
    """Whether the run's engine drafts tokens, as far as it is known."""
    return _name_speculation(run) not in (PLAIN, "")


def _load_texts(session: Session, run_id: uuid.UUID) -> Texts:
    columns = RunTask.task_pk, Sample.index, Sample.raw, Sample.finish_reason, Sample.first_token_s
    query = select(*columns).join(RunTask, RunTask.id == Sample.run_task_id).where(Sample.run_id == run_id)
    return {
        (task, index): _EngineText(raw, reason not in FINISHED_REASONS, first_s)
        for task, index, raw, reason, first_s in session.execute(query)
    }


def _find_plain(name: str, arms: Mapping[str, Run]) -> str | None:
    """The arm that decodes with the same engine and options without speculation, if this one speculates."""
    if not is_speculative(arms[name]):
        return None
    same = [other for other, run in arms.items() if _identify(run) == _identify(arms[name])]
    return next((other for other in same if _name_speculation(arms[other]) == PLAIN), None)


def _identify(run: Run) -> str:
    """A key that is equal for arms whose texts should be equal."""
    remote = is_remote(run.target)
    model = (
        parse_target(run.target).model if remote else [run.target, run.dtype, run.weights, run.provenance.get("device")]
    )
    return json.dumps([_name_engine(run), model, run.n, run.temperature, run.top_p, run.max_tokens, run.prompt_mode])


def _name_engine(run: Run) -> str:
    if not is_remote(run.target):
        return OWN_ENGINE
    return str(run.provenance.get("engine") or run.provenance.get("server") or parse_target(run.target).base_url)


def _name_speculation(run: Run) -> str:
    """The declared kind, else "unnamed" if the server reports drafted tokens, else ""."""
    if not is_remote(run.target):
        return run.drafter
    if declared := run.provenance.get("speculation"):
        return str(declared)
    return "unnamed" if run.measured.mean_acceptance_length else ""


def _compute_changed_share(plain: Texts, speculative: Texts) -> float | None:
    """The share of texts that differ, as far as both are known."""
    keys = plain.keys() & speculative.keys()
    if not keys:
        return None
    return sum(_differ(plain[key], speculative[key]) for key in keys) / len(keys)


def _differ(a: _EngineText, b: _EngineText) -> bool:
    cuts: Sequence[int] = [len(text.raw) for text in (a, b) if text.is_cut]
    end = min(cuts) if cuts else None
    return a.raw[:end] != b.raw[:end]


def _describe_start(run: Run) -> str:
    if not is_remote(run.target):
        return f"bassline serve; target {run.target}, drafter {run.drafter}, n {run.n}"
    return str(run.provenance.get("server_command") or parse_target(run.target).base_url)
