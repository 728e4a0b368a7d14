"""A run's configuration, read from its row or its specification.

Options are declared in app/runs/schemas.py and read through app/runs/options.py.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import replace
from typing import Any

from sqlalchemy import Row

from app.runs.models import Run
from app.runs.options import get_options
from app.runs.schemas import ArmOptions, DecodingSpec, EngineOptions, RunOptions, RunSpec
from decoding.config import EngineConfig
from decoding.drafters.registry import parse_drafter
from decoding.models import trained_heads
from decoding.models.errors import ModelError

UNKNOWN = "unknown"
_MODE_USED = "prompt_mode_used"  # what `auto` came to, decided when the model is loaded


def build_engine_config(source: Run | Row[Any] | EngineOptions) -> EngineConfig:
    """The engine that a run, or the columns of one, or a specification asks for."""
    config = EngineConfig(**{name: getattr(source, name) for name in EngineOptions.model_fields})
    return replace(config, head=_get_head_hash(config.target)) if parse_drafter(config.drafter).needs_head else config


def _get_head_hash(target: str) -> str:
    """The hash of a target's trained drafter; empty where there is none, which loading will refuse."""
    try:
        record = trained_heads.find(target)
    except ModelError:
        return ""
    return record.sha256 if record is not None else ""


def get_option_columns(spec: DecodingSpec) -> dict[str, Any]:
    """The specification's options as columns of `runs`; those that it does not have keep the column's default."""
    return spec.model_dump(include=set(RunOptions.model_fields))


def get_arm_options(run: Run) -> dict[str, Any]:
    """The options in which arms of a study may differ, by name."""
    return {name: getattr(run, name) for name in ArmOptions.model_fields}


def get_unknown_options() -> dict[str, Any]:
    """The columns of a run whose configuration is not known, as for samples that another tool made."""
    texts = {name: UNKNOWN for name, option in get_options(RunOptions).items() if option.type is str}
    return {**texts, "temperature": 0.0, "top_p": 1.0, "seed": 0, "max_tokens": 0}


def list_configuration(run: Run) -> list[tuple[str, str]]:
    """Everything that was chosen, as label and value for people: the Config tab, overlays and `bassline runs show`."""
    texts = {name: option.format_value(getattr(run, name)) for name, option in get_options(RunOptions).items()}
    if run.prompt_mode_used not in (None, run.prompt_mode):
        texts["prompt_mode"] += f" ({run.prompt_mode_used})"
    return [
        *((option.label, texts[name]) for name, option in get_options(RunOptions).items()),
        ("Dataset", run.dataset.name),
        ("Dataset sha256", run.dataset.sha256),
        ("Tasks chosen", f"{run.n_tasks} of the dataset's {run.dataset.n_tasks}"),
    ]


def list_environment(run: Run) -> list[tuple[str, Any]]:
    """What the run was measured with, as label and value, without what its configuration says already."""
    chosen = {name: getattr(run, name) for name in RunOptions.model_fields}
    return [
        (key.replace("_", " "), value)
        for key, value in sorted(run.provenance.items())
        if key not in chosen or chosen[key] != value
    ]


def find_differences(reference: Run, other: Run) -> dict[str, tuple[Any, Any]]:
    """The options that differ, by name: (the reference's value, the other's)."""
    pairs = {name: (getattr(reference, name), getattr(other, name)) for name in (*RunOptions.model_fields, _MODE_USED)}
    return {name: values for name, values in pairs.items() if values[0] != values[1]}


def compute_fingerprint(run: Run) -> str:
    """Eight characters that are equal for runs of the same configuration on the same dataset and models.

    The leaderboard shows it, so that repeated runs are recognised whatever their names.
    """
    names = [name for name, option in get_options(RunOptions).items() if option.fingerprint]
    content: dict[str, Any] = {name: getattr(run, name) for name in (*names, _MODE_USED)}
    content["dataset"] = run.dataset.sha256
    content["models"] = [run.provenance.get("target_sha256"), run.provenance.get("draft_sha256")]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def format_shell_command(spec: RunSpec) -> str:
    """The `bassline eval` that repeats the run."""
    words = ["bassline", "eval"]
    for name, value in spec.model_dump(exclude_defaults=True).items():
        option = get_options(RunSpec)[name]
        if option.type is bool:
            words.append(option.flag)
        else:
            words += [word for one in (value if option.type is tuple else (value,)) for word in (option.flag, str(one))]
    return shlex.join(words)
