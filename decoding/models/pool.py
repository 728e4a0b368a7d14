"""One copy of each model in memory, shared by all engines of a process that name it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakValueDictionary

from decoding.models import fetch
from decoding.models.loaded import LoadedModel, ModelSpec


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
