"""Every way a model can be refused, each said in one sentence with its remedy. No torch here."""

from __future__ import annotations


class ModelError(Exception):
    """A model that cannot be had or cannot be used; the message says why and what to do."""


class UnknownModelError(ModelError):
    """A reference that is neither a known key nor one of the other forms."""


class SourceError(ModelError):
    """One source could not deliver; the message is the reason."""


class NoSourceError(ModelError):
    """No source could deliver the model; the message lists each with its reason."""


class WrongHashError(NoSourceError):
    """A file's content is not what its sha256 says; nothing of it is kept."""


class NoSpaceError(ModelError):
    """The disk of the cache has too little room."""


class ConversionError(ModelError):
    """A GGUF file that cannot be turned into safetensors."""


class NotCachedError(ModelError):
    """The model has not been pulled yet."""


class DamagedModelError(ModelError):
    """Files in the cache differ from what was written there."""


class NotCausalError(ModelError):
    """Not a causal language model that transformers itself knows."""


class EncoderDecoderError(NotCausalError):
    """An encoder-decoder model."""


class IncompatibleModelError(ModelError):
    """A model that the engine does not decode as the model does alone."""


class TokenizerMismatchError(ModelError):
    """Target and draft give different tokens the same id."""
