"""Language models a run can name, and may name. Reads the registry of decoding/, which imports no torch."""

from __future__ import annotations

import fnmatch
from pathlib import Path

from app.core.errors import BadInputError
from app.core.remote.target import EXAMPLE as REMOTE_EXAMPLE
from app.core.settings import CACHED, REGISTERED
from decoding.drafters import registry as drafters
from decoding.models import registry, trained_heads
from decoding.models.errors import ModelError, UnknownModelError
from decoding.models.registry import KnownModel, ModelEntry
from decoding.models.trained_heads import HeadRecord
from decoding.suggest import build_advice
from kernels.cache import cache_folder


def list_models() -> list[KnownModel]:
    """The registry's entries in file order."""
    return list(registry.list_models())


def list_cached_references() -> frozenset[str]:
    """The references of the models in this process's cache."""
    from decoding.models import manifest  # noqa: PLC0415 (slow to import)

    records = (cache_folder() / "models").glob(f"*/{manifest.FILENAME}")
    found = (manifest.read(record.parent) for record in records)
    return frozenset(info.ref for info in found if info is not None)


def list_drafters_without_model() -> list[tuple[str, str]]:
    """(drafter, note) of the drafters that need no draft model; the trained ones where this machine has some."""
    lookups = [(name, "") for name in drafters.list_names() if name != drafters.TRAINED]
    targets = ", ".join(record.target for record in trained_heads.list_heads())
    trained = (drafters.TRAINED, f"sibling+{drafters.TRAINED}")
    return lookups + [(name, f"for {targets}") for name in trained if targets]


DRAFTER_LABELS = {
    "sibling": "sibling: reuse text of the other samples (recommended)",
    "none": "none: regular decoding",
    "ngram": "ngram: reuse text of the prompt and the sample itself",
}
"""The drafters as a form explains them, the recommended one first."""


def list_drafter_options() -> list[tuple[str, str]]:
    """(drafter, words) of each choice in a form: drafters without a draft model, and all models of the registry."""
    known = list_drafters_without_model()
    explained = [(name, DRAFTER_LABELS[name]) for name in DRAFTER_LABELS if name in dict(known)]
    others = [
        (name, f"{name}: trained head {note}" if note else name) for name, note in known if name not in DRAFTER_LABELS
    ]
    models = [(model.ref, f"{model.ref}: a smaller model") for model in list_models()]
    return [*explained, *others, *models]


def require_head(target: str) -> HeadRecord:
    """The trained drafter of a target on this machine. Raises BadInputError with the remedy."""
    try:
        record = trained_heads.find(target)
    except ModelError as error:
        raise BadInputError(str(error), "drafter") from None
    if record is None:
        raise BadInputError(
            f"{target} has no trained drafter here: make one with `bassline drafter train --target {target}`, or choose"
            " the drafter sibling",
            "drafter",
        )
    return record


def require_model(reference: str, field: str = "target") -> ModelEntry:
    """The entry a reference resolves to. Raises BadInputError with the known keys in its sentence."""
    try:
        return registry.resolve(reference)
    except UnknownModelError as error:
        complaint, _, remedy = str(error).partition(": ")
        if field == "target":  # the engine knows no endpoints
            remedy = f"{remedy.removesuffix('.')}, or {REMOTE_EXAMPLE}."
        known = [model.ref for model in registry.list_models()]
        raise BadInputError(f"{complaint}: {build_advice(reference, known, remedy)}", field) from None
    except (OSError, RuntimeError) as error:  # an impossible path, or the home of an unknown user
        raise BadInputError(f"{field} is {reference[:60]!r}, which names no model: {error}", field) from None


def require_infilling(target: str) -> None:
    """Raises BadInputError if the cached target has no fill-in-the-middle tokens.

    A model that is not cached here is refused by the worker that loads it.
    """
    from decoding.models import fetch, infilling  # noqa: PLC0415 (slow to import)

    info = fetch.find_cached(target)
    if info is not None and not infilling.may_have_markers(info.folder):
        raise BadInputError(
            f"{target} has no fill-in-the-middle tokens: use another model, or send no suffix", "prompt_mode"
        )


def list_allowed(patterns: tuple[str, ...]) -> list[KnownModel]:
    """The registry's models that fit `patterns`, in its order."""
    return [model for model in list_models() if is_allowed(model.ref, patterns)]


def is_allowed(reference: str, patterns: tuple[str, ...]) -> bool:
    """Whether `reference` fits one of `patterns` (BASSLINE_ALLOWED_MODELS)."""
    return any(_is_match(reference, pattern) for pattern in patterns)


def require_allowed(reference: str, field: str, patterns: tuple[str, ...]) -> None:
    """Raises BadInputError unless `is_allowed`.

    The refusal is the same for models that exist and models that do not, so that it reveals no files.
    """
    if not is_allowed(reference, patterns):
        known = ", ".join(model.ref for model in list_allowed(patterns))
        raise BadInputError(
            f"{field} is {reference[:60]!r}, which submitted runs may not name here: choose {known or 'another'}, or "
            "ask the operator to add it to BASSLINE_ALLOWED_MODELS",
            field,
        )


def _is_match(reference: str, pattern: str) -> bool:
    if pattern == REGISTERED:
        return any(model.ref == reference for model in list_models())
    if pattern == CACHED:
        return reference in list_cached_references()
    if pattern == "*":
        return True
    # A reference with .. would leave the folder of a pattern such as /models/*.
    if ".." in Path(reference).parts:
        return False
    return fnmatch.fnmatchcase(_expand_home(reference), _expand_home(pattern))


def _expand_home(reference: str) -> str:
    """The reference with a leading ~/ replaced by the operator's home."""
    return str(Path.home() / reference[2:]) if reference.startswith("~/") else reference
