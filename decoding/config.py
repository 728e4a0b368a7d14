"""How an engine is set up: which models, which drafter, which rules. Plain data, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from decoding.models import registry
from decoding.request import RequestError
from decoding.suggest import advice, nearest, one_of
from kernels.registry import BACKENDS

Acceptance = Literal["coupled", "maximal"]

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEVICES = ("auto", "cpu", "cuda")
ATTENTIONS = ("auto", *BACKENDS)
ACCEPTANCES = ("coupled", "maximal")
MAX_DRAFT_LENGTH = 32
NAMED_LENGTHS = ("goodput", "bass", "table")
LOOKUP_DRAFTERS = ("ngram", "sibling")
DRAFTERS = ("none", *LOOKUP_DRAFTERS)


@dataclass(frozen=True, slots=True)
class DrafterSpec:
    """A parsed drafter: a `lookup` in known text, a draft `model`, both (lookup first), or neither."""

    lookup: Literal["ngram", "sibling"] | None
    model: str | None


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything that decides what an engine is; two equal configurations may share one loaded engine.

    `drafter` is `none`, `ngram` (looks up the row's own text), `sibling` (looks up the text of all samples of the
    task), a model reference, or `sibling+MODEL` / `ngram+MODEL`. `draft_length` is `goodput`, `bass`,
    `table` (needs a profile, see `bassline bench profile`) or `fixed:K`. `attention` names a backend of
    `kernels/registry.py`; auto is the fastest for the device.
    Raises RequestError on a value that no engine can honour.
    """

    target: str
    drafter: str = "sibling"
    draft_length: str = "goodput"
    acceptance: str = "coupled"
    dtype: str = "auto"
    device: str = "auto"
    attention: str = "auto"
    max_batch: int = 16

    def __post_init__(self) -> None:
        _one_of("dtype", self.dtype, DTYPES)
        _one_of("device", self.device, DEVICES)
        _one_of("attention", self.attention, ATTENTIONS)
        _one_of("acceptance", self.acceptance, ACCEPTANCES)
        if self.max_batch < 1:
            raise RequestError(f"max_batch is {self.max_batch}: it must be at least 1")
        parse_drafter(self.drafter)
        parse_draft_length(self.draft_length)


def parse_drafter(text: str) -> DrafterSpec:
    """Return what a `--drafter` value asks for; raises RequestError when it asks for nothing known."""
    if text == "none":
        return DrafterSpec(None, None)
    lookup, plus, model = text.partition("+")
    if lookup in LOOKUP_DRAFTERS:
        if plus and not model:
            raise RequestError(f"drafter is {text!r}: name a model after the +")
        return DrafterSpec(lookup, model or None)  # type: ignore[arg-type]
    use = f"{', '.join(DRAFTERS)}, sibling+MODEL, or a model"
    if not text:
        raise RequestError(f"drafter is {text!r}: use {use}")
    if meant := _mistyped(text):
        raise RequestError(f"drafter is {text!r}: did you mean {meant}? Use {use}")
    return DrafterSpec(None, text)


def parse_draft_length(text: str) -> int | None:
    """Return K of `fixed:K`, None for a named policy; raises RequestError otherwise."""
    if text in NAMED_LENGTHS:
        return None
    kind, _, length = text.partition(":")
    if kind == "fixed" and length.isdecimal() and 0 <= int(length) <= MAX_DRAFT_LENGTH:
        return int(length)
    use = f"use {', '.join(NAMED_LENGTHS)} or fixed:K with K from 0 to {MAX_DRAFT_LENGTH}"
    near = "" if kind == "fixed" else text  # of fixed, only K can be wrong
    raise RequestError(f"draft_length is {text!r}: {advice(near, (*NAMED_LENGTHS, 'fixed:K'), use)}")


def _mistyped(drafter: str) -> str | None:
    """The name that was probably meant by a drafter that is neither a known model nor looks like an address of one.

    Asks no file system: the text may come from a request, which must not learn which files there are.
    """
    keys = [entry.ref for entry in registry.entries()]
    address = "/" in drafter or drafter.startswith(("hf:", ".", "~"))
    return None if address or drafter in keys else nearest(drafter.partition("+")[0], (*DRAFTERS, *keys))


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise RequestError(f"{name} is {value!r}: {one_of(value, allowed)}")
