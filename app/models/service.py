"""Language models a run can name. Reads the registry of decoding/, which imports no torch."""

from __future__ import annotations

from app.errors import BadInput
from decoding import registry
from decoding.model_errors import UnknownModelError
from decoding.registry import KnownModel, ModelEntry


def list_models() -> list[KnownModel]:
    """The registry's entries in file order."""
    return list(registry.entries())


def require_model(reference: str, field: str = "target") -> ModelEntry:
    """The entry a reference resolves to. Raises BadInput with the known keys in its sentence."""
    try:
        return registry.resolve(reference)
    except UnknownModelError as error:
        raise BadInput(str(error), field) from None
    except (OSError, RuntimeError) as error:  # a path no file system can have, or the home of nobody
        raise BadInput(f"{field} is {reference[:60]!r}, which names no model: {error}", field) from None
