"""A model in memory, as plain data. Imports no torch and no loader, so that rounds and rows can name the type."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

    from decoding.models.infilling import InfillFormat

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What decides which weights are loaded and how they run. Engines that name equal ones share a `LoadedModel`.

    `ref` is a model reference; the others are fields of `EngineConfig`.
    """

    ref: str
    dtype: str = "auto"
    device: str = "auto"
    attention: str = "auto"
    weights: str = "dense"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LoadedModel:
    """A model in evaluation mode on its device, its tokenizer, and the facts that the engine and figures need.

    Several engines may use a model at the same time, so nothing about it changes once it is loaded. Valid token ids run
    from 0 to `vocab_size - 1`: the tokenizer and the output layer both know these, and rows beyond them are padding.
    """

    model: Any
    tokenizer: Any
    ref: str
    name: str
    sha256: str  # identifies the files (`manifest.ModelInfo`); `weights_sha256` identifies the weights as they are used
    source: str
    folder: Path
    dtype: torch.dtype
    device: torch.device
    n_parameters: int  # stored parameters, tied ones once
    n_weight_bytes: int  # of the weights that a forward reads
    context_length: int  # tokens
    vocab_size: int
    eos_token_ids: tuple[int, ...]  # a sample ends at any of these
    infill_format: InfillFormat | None  # None: its tokenizer has no markers of infilling
    has_chat_template: bool
    # kernels that must not be used for this model here, with the reasons
    disabled: Mapping[str, str] = field(default_factory=dict)
    weights: str = "dense"
    _computed: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def weights_sha256(self) -> str:
        """The hash of the weights as they are used."""
        if self.weights == "dense":
            return self.sha256
        return hashlib.sha256(f"{self.sha256} {self.weights}".encode()).hexdigest()

    @property
    def label(self) -> str:
        """The name, with the weights where they are not the dense ones."""
        return self.name if self.weights == "dense" else f"{self.name} ({self.weights})"

    def compute_once(self, name: str, compute: Callable[[], T]) -> T:
        """Return what `compute` returned to the first engine that asked for the fact `name` of this model."""
        if name not in self._computed:
            self._computed[name] = compute()
        result: T = self._computed[name]
        return result
