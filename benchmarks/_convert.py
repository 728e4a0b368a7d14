"""How long the first use of a registered model converts its GGUF file."""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path

from decoding.models import conversion, registry, sources
from decoding.models.errors import NoSourceError, SourceError, WrongHashError
from decoding.models.registry import KnownModel


def convert_seconds(ref: str) -> float:
    """Fetch the model's GGUF file into a temporary folder, and return the seconds of its conversion alone.

    Raises ValueError for a model that is not in the registry, and NoSourceError.
    """
    with tempfile.TemporaryDirectory() as folder:
        gguf = gguf_file(ref, Path(folder))
        started = time.perf_counter()
        conversion.to_safetensors(gguf, Path(folder) / "ready", ref, None)
        return time.perf_counter() - started


def gguf_file(ref: str, folder: Path) -> Path:
    """Fetch the GGUF file of a registered model into a folder, from the first source that works.

    Raises ValueError for a model that is not in the registry, and NoSourceError.
    """
    model = registry.resolve(ref)
    if not isinstance(model, KnownModel):
        raise ValueError(f"{ref} is not a model of the registry: only registered models come as GGUF")
    for source in model.sources:
        with contextlib.suppress(SourceError, WrongHashError):
            return sources.download(source, model, folder, None)
    raise NoSourceError(f"{model.name} could not be fetched from any source")
