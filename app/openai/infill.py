"""The sample of a run as the server of llama.cpp answers POST /infill."""

from __future__ import annotations

from typing import Any

from app.openai.infill_schemas import InfillRequest
from app.openai.usage import timing
from app.runs.models import Run, RunTask
from app.samples.models import Sample


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
