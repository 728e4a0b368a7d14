"""Language models a run can name. Reads the registry of decoding/, which imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import BadInput

if TYPE_CHECKING:
    from decoding.registry import ModelEntry


def list_models() -> list[ModelEntry]:
    """The registry's entries in file order."""
    from decoding import registry  # noqa: PLC0415

    return list(registry.entries())


def require_model(reference: str, field: str = "target") -> ModelEntry:
    """The entry a reference resolves to. Raises BadInput with the known keys in its sentence."""
    from decoding import registry  # noqa: PLC0415

    try:
        return registry.resolve(reference)
    except registry.UnknownModelError as error:
        raise BadInput(str(error), field) from None
