"""The drafters by name: a drafter is its file and one line here. Imports no torch until a drafter is made."""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from decoding.models import registry as models
from decoding.request import RequestError
from decoding.suggest import nearest

if TYPE_CHECKING:
    from decoding.attention.draft_runner import DraftRunner
    from decoding.drafters.base import Drafter

MODEL = "MODEL"
"""Stands for a reference to a draft model."""


@dataclass(frozen=True, slots=True)
class DrafterEntry:
    """The class of a drafter as `module:name`, and what it is made with.

    With `needs_model` it is made with the runner of a draft model. A drafter with `goes_first` may be combined:
    `NAME+MODEL` asks it first and the draft model in rows where it proposes nothing.
    """

    path: str
    needs_model: bool = False
    goes_first: bool = False


DRAFTERS = {
    "none": DrafterEntry("decoding.drafters.base:NoDrafter"),
    "ngram": DrafterEntry("decoding.drafters.lookup:NgramDrafter", goes_first=True),
    "sibling": DrafterEntry("decoding.drafters.lookup:SiblingDrafter", goes_first=True),
    MODEL: DrafterEntry("decoding.drafters.model:ModelDrafter", needs_model=True),
}


@dataclass(frozen=True, slots=True)
class DrafterSpec:
    """A parsed drafter: the entries of `DRAFTERS` to ask, in order, and the reference of the draft model, if any."""

    names: tuple[str, ...]
    model: str | None


def names() -> list[str]:
    """Return the drafters that need no draft model."""
    return [name for name in DRAFTERS if name != MODEL]


def forms() -> list[str]:
    """Return all ways to write a drafter, with MODEL in the place of a reference."""
    return [*DRAFTERS, *(f"{name}+{MODEL}" for name, entry in DRAFTERS.items() if entry.goes_first)]


def parse_drafter(text: str) -> DrafterSpec:
    """Return the drafter that a `--drafter` value names.

    A word that is neither a drafter nor a model of the registry is refused, never taken for the name of a local folder:
    that has to be written as a path. Asks no file system: the text may come from a request, which must not learn which
    files there are. Raises RequestError that lists the names.
    """
    first, plus, rest = text.partition("+")
    if first in DRAFTERS and DRAFTERS[first].goes_first:
        if not plus:
            return DrafterSpec((first,), None)
        if not rest:
            raise RequestError(f"drafter is {text!r}: name a model after the +")
        return DrafterSpec((first, MODEL), _model(rest, text))
    if text in DRAFTERS and text != MODEL:
        return DrafterSpec((text,), None)
    return DrafterSpec((MODEL,), _model(text, text))


def make_drafter(spec: DrafterSpec, draft: DraftRunner | None) -> Drafter:
    """Return a new drafter for one batch; `draft` runs the draft model, if `spec` names one."""
    from decoding.drafters.combined import LONG_MATCH, LookupFirst  # noqa: PLC0415

    kinds = [(DRAFTERS[name], resolve_name(DRAFTERS[name].path)) for name in spec.names]
    if len(kinds) == 1:
        return _make(*kinds[0], draft)
    (_, lookup), other = kinds
    return LookupFirst(lookup(shortest_match=LONG_MATCH), _make(*other, draft))


def _make(entry: DrafterEntry, kind: type, draft: DraftRunner | None) -> Drafter:
    drafter: Drafter = kind(draft) if entry.needs_model else kind()
    return drafter


def _model(ref: str, drafter: str) -> str:
    """Return a reference that is a key of the model registry or an address of some form; raises RequestError."""
    known = [entry.ref for entry in models.entries()]
    if ref in known or "/" in ref or ref.startswith(("hf:", ".", "~")) or ref.endswith(".gguf"):
        return ref
    use = f"{', '.join(forms())}, where MODEL is one of {', '.join(known)} or {models.FORMS} (with a slash, ./NAME)"
    meant = nearest(ref.partition("+")[0], [*names(), *known])
    raise RequestError(f"drafter is {drafter!r}: " + (f"did you mean {meant}? Use {use}" if meant else f"use {use}"))
