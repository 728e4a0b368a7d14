"""The drafters by name: a drafter is its file and one line here. Imports no torch until a drafter is made."""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from decoding.models import registry as models
from decoding.request import RequestError
from decoding.suggest import find_nearest

if TYPE_CHECKING:
    from decoding.attention.drafting import BlockSampler, DraftRunner
    from decoding.drafters.base import Drafter
    from decoding.drafters.combined import RowSelector
    from decoding.drafters.lookup import AnswerIndex

MODEL = "MODEL"
"""The placeholder for a reference to a draft model."""
TRAINED = "trained"
"""The head that was trained for the target (`bassline drafter train`)."""


@dataclass(frozen=True, slots=True)
class DrafterEntry:
    """The class of a drafter as `module:name`, and what it is made with.

    With `has_runner` it is made with the runner of a draft model or of a trained head. With `goes_first` it is a
    lookup, made with the engine's answers, and may be combined with such a one: `NAME+MODEL` asks it first, and the
    other in the rows that the policy names.
    """

    path: str
    has_runner: bool = False
    goes_first: bool = False


DRAFTERS = {
    "none": DrafterEntry("decoding.drafters.base:Drafter"),
    "ngram": DrafterEntry("decoding.drafters.lookup:NgramDrafter", goes_first=True),
    "sibling": DrafterEntry("decoding.drafters.lookup:SiblingDrafter", goes_first=True),
    TRAINED: DrafterEntry("decoding.drafters.model:TrainedDrafter", has_runner=True),
    MODEL: DrafterEntry("decoding.drafters.model:ModelDrafter", has_runner=True),
}


@dataclass(frozen=True, slots=True)
class DrafterSpec:
    """A parsed drafter: the entries of `DRAFTERS` to ask, in order, and the reference of the draft model, if any."""

    names: tuple[str, ...]
    model: str | None

    @property
    def needs_head(self) -> bool:
        """Whether it runs the target's trained head."""
        return TRAINED in self.names

    @property
    def looks_up(self) -> bool:
        """Whether drafts are looked up, which takes no time, at least in some rows."""
        return not all(DRAFTERS[name].has_runner for name in self.names)


def list_names() -> list[str]:
    """Return the drafters that need no draft model."""
    return [name for name in DRAFTERS if name != MODEL]


def list_forms() -> list[str]:
    """Return all ways to write a drafter, with MODEL for a reference."""
    second = [name for name, entry in DRAFTERS.items() if entry.has_runner]
    return [*DRAFTERS, *(f"{a}+{b}" for a, entry in DRAFTERS.items() if entry.goes_first for b in second)]


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
            raise RequestError(f"drafter is {text!r}: name a model after the +, or {TRAINED}")
        if rest == TRAINED:
            return DrafterSpec((first, TRAINED), None)
        return DrafterSpec((first, MODEL), _parse_model(rest, text))
    if text in DRAFTERS and text != MODEL:
        return DrafterSpec((text,), None)
    return DrafterSpec((MODEL,), _parse_model(text, text))


def make_drafter(
    spec: DrafterSpec, runner: DraftRunner | BlockSampler | None, answers: AnswerIndex, choice: RowSelector
) -> Drafter:
    """Return a new drafter for one batch; `runner` runs the draft model or the head, if `spec` names one.

    A lookup may read `answers`. With a lookup first, `choice` decides round by round which rows the other drafts for.
    """
    from decoding.drafters.combined import LookupFirst  # noqa: PLC0415

    first, *others = (_make(DRAFTERS[name], runner, answers) for name in spec.names)
    return LookupFirst(first, others[0], choice) if others else first


def _make(entry: DrafterEntry, runner: DraftRunner | BlockSampler | None, answers: AnswerIndex) -> Any:
    kind = resolve_name(entry.path)
    if entry.has_runner:
        return kind(runner)
    return kind(answers) if entry.goes_first else kind()


def _parse_model(ref: str, drafter: str) -> str:
    """Return a reference that is a key of the model registry or an address of some form; raises RequestError."""
    known = [entry.ref for entry in models.list_models()]
    if ref in known or "/" in ref or ref.startswith(("hf:", ".", "~")) or ref.endswith(".gguf"):
        return ref
    use = (
        f"{', '.join(list_forms())}, where MODEL is one of {', '.join(known)} or {models.FORMS} (with a slash, ./NAME)"
    )
    meant = find_nearest(ref.partition("+")[0], [*list_names(), *known])
    raise RequestError(f"drafter is {drafter!r}: " + (f"did you mean {meant}? Use {use}" if meant else f"use {use}"))
