"""Hidden states inside a target that a trained drafter reads: the inputs of a few layers, for each token.

EAGLE-3 (arXiv 2503.01840) calls them low, middle and high features. A tap is the number of a layer; what is recorded is
that layer's input, which is the output of the layer before it.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn
from transformers import PreTrainedModel

from decoding.models.errors import ModelError

TAPS = "taps"
"""The name of the tapped states, side by side, in a cache: [N, len(taps) * H]."""
OUTPUT = "output"
"""The name of the states that the output layer reads, [N, H]; recorded only for training."""
K = TypeVar("K", bound=Hashable)


def get_decoder_layers(model: PreTrainedModel) -> nn.ModuleList:
    """Return the decoder layers of a model. Raises ModelError where they are no list of modules."""
    n_layers = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == n_layers:
            return module
    raise ModelError(f"{type(model).__name__} has no list of layers, so no trained drafter can read their inputs.")


@contextmanager
def record_taps(model: PreTrainedModel, taps: Sequence[int]) -> Iterator[dict[int, torch.Tensor]]:
    """Collect the inputs [1, N, H] of some layers by their numbers while this thread runs a forward of the model."""
    layers = get_decoder_layers(model) if taps else nn.ModuleList()
    with _record_inputs({tap: layers[tap] for tap in taps}) as inputs:
        yield inputs


@contextmanager
def record_output_states(model: PreTrainedModel) -> Iterator[dict[str, torch.Tensor]]:
    """Collect what the output layer reads, [.., N, H], as `OUTPUT`, while this thread runs a forward of the model."""
    with _record_inputs({OUTPUT: model.get_output_embeddings()}) as inputs:
        yield inputs


@contextmanager
def _record_inputs(modules: Mapping[K, nn.Module]) -> Iterator[dict[K, torch.Tensor]]:
    """Collect the inputs of modules; other threads may run them meanwhile, and their states are not collected."""
    inputs: dict[K, torch.Tensor] = {}
    thread = threading.get_ident()

    def keep(key: K, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if threading.get_ident() == thread:
            inputs[key] = args[0] if args else kwargs["hidden_states"]

    with ExitStack() as hooks:
        for key, module in modules.items():
            hooks.callback(module.register_forward_pre_hook(partial(keep, key), with_kwargs=True).remove)
        yield inputs
