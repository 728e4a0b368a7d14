"""POST /infill, as the server of llama.cpp documents it, and `budget`: the request, and the sample of its run as the
answer."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, Field, StrictFloat, StrictInt, model_validator

from app.completions.schemas import MAX_CHARACTERS
from app.core.db.storable import Text
from app.core.settings import MAX_BUDGET_S
from app.openai.answers import timing
from app.openai.fields import SamplesRequest
from app.runs.models import Run, RunTask
from app.runs.schemas import MAX_TOKENS, DecodingSpec, PromptMode
from app.samples.models import Sample
from evaluation.datasets import Task

MAX_EXTRA = 256
USUAL_N_PREDICT = 128
# How tokens are drawn: without effect where the most likely one is always taken.
OF_THE_SAMPLER = frozenset({"min_p", "samplers", "top_k", "typical_p"})


class Extra(BaseModel):
    """A part of another file."""

    filename: Text = ""
    text: Text


class InfillRequest(SamplesRequest):
    """One text for the gap between `input_prefix` with `prompt`, the line being written, and `input_suffix`.

    Greedy, unless `temperature` says otherwise: editors name llama.cpp's own samplers, which are not offered here, and
    no temperature.
    """

    input_prefix: Text = ""
    input_suffix: Text = ""
    input_extra: tuple[Extra, ...] = Field((), max_length=MAX_EXTRA)
    prompt: Text = ""
    n_predict: StrictInt = Field(USUAL_N_PREDICT, ge=-1, le=MAX_TOKENS)
    n_indent: StrictInt = Field(0, ge=0)
    n: Literal[1] = 1
    temperature: StrictFloat = Field(0.0, ge=0, le=2)
    stream: Literal[False] = False
    t_max_prompt_ms: StrictFloat = 0
    t_max_predict_ms: StrictFloat = 0

    @model_validator(mode="after")
    def _is_not_too_long(self) -> Self:
        length = len(self._before) + len(self.input_suffix)
        if length > MAX_CHARACTERS:
            raise ValueError(f"input_prefix and the other texts have {length} characters: give {MAX_CHARACTERS}")
        return self

    def ignored(self) -> frozenset[str]:
        """The names of fields that may hold anything: of the sampler as well, if the answer is greedy."""
        return super().ignored() | (OF_THE_SAMPLER if self.temperature == 0 else frozenset())

    @property
    def longest(self) -> int:
        """At least 1. An `n_predict` of 0 only prepares the cache for a later request, -1 sets no limit."""
        return USUAL_N_PREDICT if self.n_predict < 0 else max(self.n_predict, 1)

    @property
    def prompt_mode(self) -> PromptMode:
        """Always infilling."""
        return "infill"

    def decoding(self, usual_budget_s: float) -> DecodingSpec:
        """How the gap is decoded. Without `budget`, the milliseconds for prompt and prediction together are the
        budget."""
        if self.t_max_prompt_ms > 0 and self.t_max_predict_ms > 0:
            usual_budget_s = min((self.t_max_prompt_ms + self.t_max_predict_ms) / 1000, MAX_BUDGET_S)
        return super().decoding(usual_budget_s)

    def tasks(self) -> tuple[Task, ...]:
        """The gap as one task."""
        return (Task("prompt/0", self._before, "", "", "", suffix=self.input_suffix, stop=self.stop),)

    @property
    def _before(self) -> str:
        """The line being written belongs to the prefix: after the marker of the gap, as llama.cpp puts it, its last
        word would count as whole, and a model continues `re` by ` = a` instead of `turn a`."""
        extra = "".join(f"{extra.filename}\n{extra.text}\n\n" for extra in self.input_extra)
        return extra + self.input_prefix + self.prompt


def document(run: Run, task: RunTask, asked: InfillRequest) -> dict[str, Any]:
    """The answer, with the fields of llama.cpp that mean something here, and `bassline`."""
    (sample,) = task.samples
    text = indented(sample.raw, asked.n_indent) if asked.n_predict else ""
    n_prompt, n_cached = task.n_prompt_tokens or 0, task.cached_tokens or 0
    prefill_s, wall_s = task.prefill_s or 0.0, task.wall_s or 0.0
    return {
        "index": 0,
        "content": text,
        "stop": True,
        "model": asked.model,
        "tokens_predicted": sample.n_tokens,
        "tokens_evaluated": n_prompt,
        "tokens_cached": n_cached,
        "truncated": False,
        "has_new_line": "\n" in text,
        "stop_type": _stop_type(sample),
        "generation_settings": {
            "n_predict": run.max_tokens,
            "temperature": run.temperature,
            "top_p": run.top_p,
            "seed": run.seed,
            "stop": list(asked.stop),
        },
        "timings": {
            "draft_n": sample.n_drafted,
            "draft_n_accepted": sample.n_accepted,
            **_rate("prompt", n_prompt - n_cached, prefill_s),
            **_rate("predicted", sample.n_tokens, wall_s - prefill_s),
        },
        "bassline": {**timing(run, [task]), "finish_reason": sample.finish_reason},
    }


def indented(text: str, n_indent: int) -> str:
    """The text up to its first further line with fewer than `n_indent` blanks and tabs before it."""
    lines = text.split("\n")
    for i, line in enumerate(lines[1:], 1):
        rest = line.lstrip(" \t")
        if rest and len(line) - len(rest) < n_indent:
            return "\n".join(lines[:i])
    return text


def _stop_type(sample: Sample) -> str:
    if sample.finish_reason != "stop":
        return "limit"
    return "word" if sample.eos_logprob is None else "eos"


def _rate(name: str, n: int, seconds: float) -> dict[str, Any]:
    return {
        f"{name}_n": n,
        f"{name}_ms": 1000 * seconds,
        f"{name}_per_second": n / seconds if seconds else None,
    }
