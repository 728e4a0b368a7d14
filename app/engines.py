"""The engine that each worker thread of a process holds: the last one used, kept until a run needs another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.ports import Engine
    from decoding.config import EngineConfig


@dataclass(frozen=True, slots=True)
class Held:
    """What one thread holds. `engine` is None while it is being loaded."""

    config: EngineConfig
    engine: Engine | None = None


class HeldEngines:
    """At most one engine a thread. What any thread holds or loads can be read by all (the workers table)."""

    def __init__(self) -> None:
        self._by_thread: dict[int, Held] = {}

    def get(self, config: EngineConfig, load: Callable[[], Engine]) -> Engine:
        """This thread's engine for `config`, from `load` if it holds another or none. What `load` raises passes."""
        thread = threading.get_ident()
        held = self._by_thread.pop(thread, None)
        if held is None or held.engine is None or held.config != config:
            held = None  # frees the old engine first: two models may not fit into memory
            self._by_thread[thread] = Held(config)
            try:
                held = Held(config, load())
            finally:
                del self._by_thread[thread]
        self._by_thread[thread] = held
        assert held.engine is not None
        return held.engine

    def config(self) -> EngineConfig | None:
        """What this thread's engine was made for; None without one."""
        held = self._by_thread.get(threading.get_ident())
        return held.config if held else None

    def drop(self) -> None:
        """Forgets this thread's engine, so that its memory can be used."""
        self._by_thread.pop(threading.get_ident(), None)

    def loaded(self) -> tuple[str, str] | None:
        """(target, device) of the engine that some thread of this process holds, or None."""
        for held in list(self._by_thread.values()):
            if held.engine is not None:
                return held.config.target, str(held.engine.provenance().get("device") or held.config.device)
        return None

    def loading(self) -> str | None:
        """The target that some thread of this process is loading, or None."""
        return next((held.config.target for held in list(self._by_thread.values()) if held.engine is None), None)
