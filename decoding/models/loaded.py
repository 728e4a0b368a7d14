"""A model in memory, as plain data. Imports no torch and no loader, so that rounds and rows can name the type."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in evaluation mode on its device, its tokenizer, and the facts that the engine and figures need.

    `sha256` identifies the weights (see `manifest.ModelInfo`). `n_parameters` counts stored parameters, tied ones
    once; `n_weight_bytes` is their size in `dtype`. `context_length` is in tokens. Valid token ids run from 0 to
    `vocab_size - 1`: the tokenizer and the output layer both know these, and rows beyond them are padding. A sample
    ends at any of `eos_token_ids`. `fim_tokens` are the prefix, suffix and middle markers of infilling, None if the
    tokenizer has none.
    """

    model: Any
    tokenizer: Any
    ref: str
    name: str
    sha256: str
    source: str
    folder: Path
    dtype: torch.dtype
    device: torch.device
    n_parameters: int
    n_weight_bytes: int
    context_length: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    fim_tokens: tuple[str, str, str] | None
    has_chat_template: bool
