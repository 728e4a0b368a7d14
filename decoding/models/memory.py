"""Memory for models: what one will take, and what one takes."""

from __future__ import annotations

from itertools import chain

from torch import nn
from transformers import PreTrainedModel

from decoding.models import fetch
from decoding.models.device import pick_device, pick_dtype
from decoding.models.loaded import ModelSpec
from decoding.models.packing import PackedLayer


def estimate_bytes(spec: ModelSpec) -> int | None:
    """Return about how many bytes the weights will take; None for a model that is not in the cache yet.

    Raises UnknownModelError, and ModelError for a device that is not here.
    """
    info = fetch.find_cached(spec.ref)
    if info is None:
        return None
    itemsize = pick_dtype(spec.dtype, pick_device(spec.device)).itemsize
    # Embeddings stay dense: with a large vocabulary they are a quarter of a small model.
    return int(info.n_parameters * (itemsize if spec.weights == "dense" else (3 + itemsize) / 4))


def count_weight_bytes(model: nn.Module) -> int:
    """Return the bytes of a loaded model: parameters, buffers and prepacked weights, each shared one once."""
    packed = [module for module in model.modules() if isinstance(module, PackedLayer)]
    plain = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    return sum(tensor.numel() * tensor.element_size() for tensor in plain.values()) + sum(m.n_bytes for m in packed)


def count_bytes_read(model: PreTrainedModel) -> int:
    """Return the bytes of weights that a forward reads: all but the input embedding, unless the output layer is it."""
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings()
    is_read = getattr(head, "weight", None) is embedding
    return count_weight_bytes(model) - (0 if is_read else embedding.nbytes)
