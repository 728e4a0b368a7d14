"""Memory for models: what one takes, what a device has, how to give it back, and how to tell that there is none."""

from __future__ import annotations

import ctypes
import gc
import sys
from itertools import chain
from pathlib import Path

import psutil
import torch
from torch import nn
from transformers import PreTrainedModel

from decoding.models import fetch
from decoding.models.device import pick_device, pick_dtype
from decoding.models.loaded import ModelSpec
from decoding.models.packing import Packed

# The limit of a container: cgroup v2, then v1. Without a limit they hold "max" or a number beyond any memory.
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def expected_bytes(spec: ModelSpec) -> int | None:
    """Return about how many bytes the weights will take; None for a model that is not in the cache yet.

    Raises UnknownModelError, and ModelError for a device that is not here.
    """
    info = fetch.cached(spec.ref)
    if info is None:
        return None
    itemsize = pick_dtype(spec.dtype, pick_device(spec.device)).itemsize
    # Embeddings stay dense: with a large vocabulary they are a quarter of a small model.
    return int(info.n_parameters * (itemsize if spec.weights == "dense" else (3 + itemsize) / 4))


def weight_bytes(model: nn.Module) -> int:
    """Return the bytes of a loaded model: parameters, buffers and prepacked weights, each shared one once."""
    packed = [module for module in model.modules() if isinstance(module, Packed)]
    plain = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    return sum(tensor.numel() * tensor.element_size() for tensor in plain.values()) + sum(m.n_bytes for m in packed)


def read_bytes(model: PreTrainedModel) -> int:
    """Return the bytes of weights that a forward reads: all but the input embedding, unless the output layer is it."""
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings()
    is_read = getattr(head, "weight", None) is embedding
    return weight_bytes(model) - (0 if is_read else embedding.nbytes)


def available_bytes(device: str) -> int:
    """Return the bytes that this process has or could have on `device`, an `EngineConfig.device`.

    On a CPU that is the machine's memory that others leave, within the limit of the container. Raises ModelError for a
    device that is not here.
    """
    on = pick_device(device)
    if on.type == "cuda":
        return torch.cuda.mem_get_info(on)[0] + torch.cuda.memory_reserved(on)
    left: int = psutil.virtual_memory().available + psutil.Process().memory_info().rss
    return min([left, *_cgroup_limits()])


def release_unused() -> None:
    """Give the memory of what was dropped back to the system.

    Python's cycles, PyTorch's allocator for GPUs and glibc's heap keep it otherwise: after smollm2-135m was loaded and
    dropped, 1.1 of its 1.3 GB stayed with the process, and after loading it again 1.5 GB.
    """
    gc.collect()
    torch.cuda.empty_cache()  # does nothing where CUDA is not in use
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an allocation failed, on a GPU or in PyTorch's allocator for CPUs, which has no error type."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def _cgroup_limits() -> list[int]:
    texts = [path.read_text().strip() for path in _CGROUP_LIMITS if path.exists()]
    return [int(text) for text in texts if text.isdecimal()]
