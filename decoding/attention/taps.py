"""Hidden states inside a target that a trained drafter reads: the inputs of a few layers, for each token.

EAGLE-3 (arXiv 2503.01840) calls them low, middle and high features. A tap is the number of a layer; what is recorded is
that layer's input, which is the output of the layer before it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from decoding.models.errors import ModelError

TAPS = "taps"
"""The name of the tapped states, side by side, in a cache: [N, len(taps) * H]."""
OUTPUT = "output"
"""The name of the states that the output layer reads, [N, H]; recorded only for training."""


def get_decoder_layers(model: PreTrainedModel) -> nn.ModuleList:
    """Return the decoder layers of a model. Raises ModelError where they are no list of modules."""
    n_layers = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == n_layers:
            return module
    raise ModelError(f"{type(model).__name__} has no list of layers, so no trained drafter can read their inputs.")


@contextmanager
def record_taps(model: PreTrainedModel, taps: Sequence[int]) -> Iterator[dict[int, torch.Tensor]]:
    """Collect the inputs [1, N, H] of some layers by their numbers while this thread runs a forward of the model.

    Other threads may run the same model meanwhile, and their states are not collected.
    """
    inputs: dict[int, torch.Tensor] = {}
    thread = threading.get_ident()
    layers = get_decoder_layers(model) if taps else nn.ModuleList()

    def hook(tap: int) -> Any:
        def keep(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if threading.get_ident() == thread:
                inputs[tap] = args[0] if args else kwargs["hidden_states"]

        return keep

    with ExitStack() as hooks:
        for tap in set(taps):
            hooks.callback(layers[tap].register_forward_pre_hook(hook(tap), with_kwargs=True).remove)
        yield inputs


@contextmanager
def record_output_states(model: PreTrainedModel) -> Iterator[list[torch.Tensor]]:
    """Collect what the output layer reads, [.., N, H], while this thread runs a forward of the model."""
    found: list[torch.Tensor] = []
    thread = threading.get_ident()

    def keep(_module: nn.Module, args: tuple[Any, ...]) -> None:
        if threading.get_ident() == thread:
            found.append(args[0])

    handle = model.get_output_embeddings().register_forward_pre_hook(keep)
    try:
        yield found
    finally:
        handle.remove()
