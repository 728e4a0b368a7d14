"""Reasons to refuse a model. Each message is one sentence with its remedy. No torch here."""

from __future__ import annotations

_QUOTED = 240
"""Characters of a library's message that are quoted: some repeat all of a value from a file."""


class ModelError(Exception):
    """A model that cannot be fetched or cannot be used; the message says why and what to do."""


class UnknownModelError(ModelError):
    """A reference that is neither a key of the registry nor one of the other forms."""


class SourceError(ModelError):
    """One source failed; the message is the reason."""


class NoSourceError(ModelError):
    """Every source failed; the message lists each with its reason."""


class WrongHashError(NoSourceError):
    """A file does not have the expected sha256."""


class NoMemoryError(ModelError):
    """A model that does not fit into the memory that is left on its device."""


def get_first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type if it has none, short enough to quote in a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:_QUOTED].rstrip(".:")
