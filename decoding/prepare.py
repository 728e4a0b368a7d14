"""Makes a model ready for engines: loaded, checked, and its weights in the layout that its device reads fastest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from weakref import WeakValueDictionary

from decoding.attention.backends import OWN, get_backend
from decoding.attention.choice import pick_attention
from decoding.attention.flat_forward import FlatForward
from decoding.attention.recurrence import is_recurrent
from decoding.checks import self_check
from decoding.checks.compatibility import select_attention
from decoding.models import fetch, trained_heads
from decoding.models.device import pick_device, release_unused
from decoding.models.errors import ModelError
from decoding.models.fusion import fuse
from decoding.models.huge_pages import use_huge_pages
from decoding.models.loaded import LoadedModel, ModelSpec
from decoding.models.loading import load
from decoding.models.memory import count_bytes_read
from decoding.models.trained_heads import LoadedHead
from decoding.models.weight_formats import FORMATS


def load_model(spec: ModelSpec, on_progress: Callable[[str], None] | None = None) -> LoadedModel:
    """Load a model, ready for any number of engines: with an attention backend that suits it and kernels that work.

    On a CPU its weights are prepacked, and quantized if that is asked for. Raises ModelError.
    """
    device = pick_device(spec.device)
    pick_attention(spec.attention, device)  # one that does not run here is refused at once
    if obstacle := FORMATS[spec.weights].find_obstacle(device):
        raise ModelError(obstacle)
    loaded = load(spec.ref, spec.dtype, spec.device, on_progress)
    return prepare_model(loaded, spec.attention, spec.weights, on_progress)


def prepare_model(
    loaded: LoadedModel, attention: str, weights: str, on_progress: Callable[[str], None] | None = None
) -> LoadedModel:
    """Make a model whose weights are in memory ready for engines, in place. Raises ModelError."""
    select_attention(loaded, attention, on_progress)
    fuse(loaded.model)
    blocks = FORMATS[weights].apply(loaded.model, is_flat=FlatForward.suits(loaded.model))
    if blocks is not None:
        FlatForward.use_blocks(loaded.model, blocks)
    release_unused()
    if loaded.device.type == "cpu":
        use_huge_pages()
    loaded = replace(loaded, weights=weights, n_weight_bytes=count_bytes_read(loaded.model))
    return replace(loaded, disabled=self_check.check_kernels(loaded)) if loaded.device.type == "cuda" else loaded


def load_unpacked(spec: ModelSpec, on_progress: Callable[[str], None] | None = None) -> LoadedModel:
    """Load a model with an attention backend that suits it and its weights unpacked, for training and import."""
    loaded = load(spec.ref, spec.dtype, spec.device, on_progress)
    select_attention(loaded, spec.attention, on_progress)
    return loaded


def load_head(target: LoadedModel) -> LoadedHead:
    """Load the trained drafter of a loaded target. Raises ModelError if it has none, or none that fits."""
    refuse_own_attention(target)
    loaded = trained_heads.load(target)
    if target.device.type == "cpu":
        use_huge_pages()
    return loaded


def refuse_own_attention(target: LoadedModel) -> None:
    """Raise ModelError for a target whose states no trained drafter can read."""
    if get_backend(target.model) == OWN:
        raise ModelError(
            f"{target.name} computes attention by itself, row by row, where no trained drafter can read its states:"
            " choose the drafter ngram or sibling."
        )


def refuse_recurrent_draft(draft: LoadedModel) -> None:
    """Raise ModelError for a draft model whose drafts cannot be taken back."""
    if is_recurrent(draft.model):
        raise ModelError(
            f"{draft.name} cannot be a draft model: it reads its drafts one by one, and its recurrent layers cannot be"
            " taken back to the tokens that stay: choose a model of attention alone, or the drafter ngram or sibling."
        )


class ModelPool:
    """The models that some engine of this process uses. Holds none itself: the last engine to go frees the weights."""

    def __init__(self) -> None:
        self._models: WeakValueDictionary[tuple[ModelSpec, str], LoadedModel] = WeakValueDictionary()
        self._lock = threading.Lock()

    def get(self, spec: ModelSpec, load: Callable[[], LoadedModel]) -> LoadedModel:
        """Return the model of `spec` that is in memory, else what `load` returns.

        A model whose files have changed since is loaded again. One thread loads at a time, so that two which want the
        same model get the same. Raises UnknownModelError, and what `load` raises.
        """
        with self._lock:
            info = fetch.find_cached(spec.ref)
            model = None if info is None else self._models.get((spec, info.sha256))
            if model is None:
                model = load()
                self._models[spec, model.sha256] = model
            return model
