"""Which models a submitted run may name, checked before the service looks for one on disk or on the hub."""

from __future__ import annotations

import fnmatch
from pathlib import Path

from app.core.errors import BadInputError
from app.core.settings import CACHED, REGISTERED
from app.language_models import service
from decoding.models.registry import KnownModel


def list_allowed(patterns: tuple[str, ...]) -> list[KnownModel]:
    """The registry's models that fit `patterns`, in its order."""
    return [model for model in service.list_models() if is_allowed(model.ref, patterns)]


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
        return any(model.ref == reference for model in service.list_models())
    if pattern == CACHED:
        return reference in service.list_cached_references()
    if pattern == "*":
        return True
    # A reference with .. would leave the folder of a pattern such as /models/*.
    if ".." in Path(reference).parts:
        return False
    return fnmatch.fnmatchcase(_expand_home(reference), _expand_home(pattern))


def _expand_home(reference: str) -> str:
    """The reference with a leading ~/ replaced by the operator's home."""
    return str(Path.home() / reference[2:]) if reference.startswith("~/") else reference
