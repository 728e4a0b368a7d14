"""How an engine is set up: its models, its drafter and its rules. Plain data, no torch."""

from __future__ import annotations

from dataclasses import dataclass

from decoding.acceptance.registry import RULES
from decoding.drafters.registry import parse_drafter
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.models.loaded import ModelSpec
from decoding.models.weight_formats import FORMATS
from decoding.request import RequestError
from decoding.suggest import build_advice, suggest_one_of
from kernels.registry import BACKENDS

DTYPES = ("auto", "float32", "bfloat16", "float16")
WEIGHTS = tuple(FORMATS)
DEVICES = ("auto", "cpu", "cuda")
ATTENTIONS = ("auto", *BACKENDS)
ACCEPTANCES = tuple(RULES)
DRAFT_LENGTH_POLICIES = ("goodput", "bass", "table")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything that decides what an engine computes; two equal configurations may share one loaded engine.

    Raises RequestError on a value that no engine can honour.
    """

    target: str
    # a name of `drafters/registry.py` or a model reference; `sibling+MODEL` and `ngram+MODEL` combine both, and
    # `trained` instead of MODEL is the head trained for the target
    drafter: str = "sibling"
    # `goodput`, `bass`, `table` (needs a profile, see `bassline bench profile`) or `fixed:K`
    draft_length: str = "goodput"
    acceptance: str = "coupled"  # a name of `acceptance/registry.py`
    dtype: str = "auto"
    # a name of `models/weight_formats.py`; 8 bits are for target and draft model: other models, with other hashes
    weights: str = "dense"
    device: str = "auto"
    attention: str = "auto"  # a backend of `kernels/registry.py`; auto is the fastest for the device
    max_batch: int = 16
    head: str = ""  # hash of the trained drafter, if the caller knows it: another hash is another configuration

    def __post_init__(self) -> None:
        _require_one_of("dtype", self.dtype, DTYPES)
        _require_one_of("weights", self.weights, WEIGHTS)
        _require_one_of("device", self.device, DEVICES)
        only = FORMATS[self.weights].device
        if only is not None and self.device not in ("auto", only):
            raise RequestError(f"device is {self.device!r}: {self.weights} weights are for {only}, choose dense ones")
        _require_one_of("attention", self.attention, ATTENTIONS)
        _require_one_of("acceptance", self.acceptance, ACCEPTANCES)
        if self.max_batch < 1:
            raise RequestError(f"max_batch is {self.max_batch}: it must be at least 1")
        parse_drafter(self.drafter)
        parse_draft_length(self.draft_length)

    @property
    def models(self) -> tuple[ModelSpec, ...]:
        """The models that the engine runs: the target, then the draft model if there is one."""
        refs = [self.target, parse_drafter(self.drafter).model]
        return tuple(
            ModelSpec(ref, self.dtype, self.device, self.attention, self.weights) for ref in refs if ref is not None
        )


def parse_draft_length(text: str) -> int | None:
    """Return K of `fixed:K`, None for a named policy; raises RequestError otherwise."""
    if text in DRAFT_LENGTH_POLICIES:
        return None
    kind, _, length = text.partition(":")
    if kind == "fixed" and length.isdecimal() and 0 <= int(length) <= MAX_DRAFT_LENGTH:
        return int(length)
    use = f"use {', '.join(DRAFT_LENGTH_POLICIES)} or fixed:K with K from 0 to {MAX_DRAFT_LENGTH}"
    near = "" if kind == "fixed" else text  # of fixed, only K can be wrong
    raise RequestError(f"draft_length is {text!r}: {build_advice(near, (*DRAFT_LENGTH_POLICIES, 'fixed:K'), use)}")


def _require_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise RequestError(f"{name} is {value!r}: {suggest_one_of(value, allowed)}")
