"""The engines that the worker threads of a process hold: as many as fit; least recently used first out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from decoding.models.errors import NoMemoryError

if TYPE_CHECKING:
    from app.core.ports import Engine, EngineMemory, EngineParts
    from decoding.config import EngineConfig


@dataclass(slots=True, eq=False)
class EngineSlot:
    """An engine of one thread. While it is being loaded, `engine` is None and `expected` its expected bytes."""

    thread: int
    config: EngineConfig
    engine: Engine | None = None
    expected: EngineParts = field(default_factory=dict)

    @property
    def parts(self) -> Mapping[Any, int]:
        """The bytes that it takes, by purpose; equal keys of two engines are the same memory."""
        parts = self.expected if self.engine is None else self.engine.count_memory()
        # Engines of two threads may have one configuration; each has caches of its own.
        return {(self.thread, part) if part == self.config else part: n_bytes for part, n_bytes in parts.items()}


class EnginePool:
    """Engines by thread and configuration. What any thread holds or loads can be read by all (the workers table).

    Before an engine is loaded, and once its size is known, others are dropped until it fits: least recently used
    first, but never the one that another thread got last. A needed engine is always loaded. Each thread has engines of
    its own, because an engine decodes for one caller at a time; weights are shared by the whole process.
    """

    def __init__(self, memory: EngineMemory) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._slots: list[EngineSlot] = []  # least recently used first
        # By thread, what it got last, which counts as in use until the thread gets another or calls drop().
        self._in_use: dict[int, EngineConfig] = {}
        self._sizes: dict[EngineConfig, Mapping[Any, int]] = {}  # of all engines ever loaded
        self._proven_limit: int | None = None  # the bytes in memory when there was no room for more

    def get(self, config: EngineConfig, load: Callable[[], Engine]) -> Engine:
        """This thread's engine for `config`, from `load` if it holds none. Exceptions of `load` propagate.

        May drop the engine that the thread got before. If memory runs out while loading, every engine
        not in use is dropped, and loading is retried once.
        """
        return self._use(config) or self._load(EngineSlot(threading.get_ident(), config), load)

    def list_configs(self) -> Collection[EngineConfig]:
        """The configurations whose engines this thread holds: getting one of them takes no time."""
        with self._lock:
            return {slot.config for slot in self._slots if slot.thread == threading.get_ident()}

    def fits(self, configs: Iterable[EngineConfig]) -> bool:
        """Whether engines for all of these stay in memory together, so that taking turns costs no loading.

        Answers from the true sizes of those that have been loaded here, and from expected ones. A size that is not
        known counts as nothing, so ask again after loading. Imports torch: only workers ask.
        """
        with self._lock:
            sizes = self._sizes | {slot.config: slot.parts for slot in self._slots if slot.engine is not None}
        parts = {config: sizes.get(config) or self._memory.estimate_parts(config) for config in configs}
        known = {config: each for config, each in parts.items() if each}
        return all(_sum_memory(known.values()) <= self._compute_limit(config) for config in known)

    def drop(self) -> None:
        """Forgets this thread's engines, so that their memory can be used."""
        with self._lock:
            self._slots = [slot for slot in self._slots if slot.thread != threading.get_ident()]
            self._in_use.pop(threading.get_ident(), None)

    def describe_loaded(self) -> tuple[list[str], str] | None:
        """(targets, the last used first; device of that one) of this process's engines, or None."""
        with self._lock:
            engines = [(slot.config, slot.engine) for slot in reversed(self._slots) if slot.engine is not None]
        if not engines:
            return None
        config, engine = engines[0]
        targets = list(dict.fromkeys(each.target for each, _ in engines))
        return targets, str(engine.get_provenance().get("device") or config.device)

    def get_loading_target(self) -> str | None:
        """The target that some thread of this process is loading, or None."""
        with self._lock:
            return next((slot.config.target for slot in self._slots if slot.engine is None), None)

    def _use(self, config: EngineConfig) -> Engine | None:
        """This thread's engine for `config`, now the last used, or None."""
        thread = threading.get_ident()
        with self._lock:
            self._in_use[thread] = config
            for slot in self._slots:
                if (slot.thread, slot.config) == (thread, config):
                    self._slots.remove(slot)
                    self._slots.append(slot)
                    return slot.engine
        return None

    def _load(self, new: EngineSlot, load: Callable[[], Engine]) -> Engine:
        with self._lock:
            self._slots.append(new)
        try:
            if self._sum_other_bytes(new):
                expected = self._memory.estimate_parts(new.config)
                new.expected = expected or {}
                # Beside an engine of unknown size all others may be too much.
                self._make_room(new, 0 if expected is None else self._compute_limit(new.config))
            engine = self._load_or_retry(new, load)
        except BaseException:
            with self._lock:
                self._slots.remove(new)
            raise
        with self._lock:
            new.engine = engine
            self._sizes[new.config] = new.parts
        if self._sum_other_bytes(new):
            self._make_room(new, self._compute_limit(new.config))
        return engine

    def _load_or_retry(self, new: EngineSlot, load: Callable[[], Engine]) -> Engine:
        others = self._sum_other_bytes(new)
        try:
            return load()
        except NoMemoryError:
            if not self._make_room(new, 0):
                raise
        # Outside of the handler: its exception keeps everything loaded so far.
        self._proven_limit = others
        self._memory.release()
        return load()

    def _sum_other_bytes(self, new: EngineSlot) -> int:
        """The bytes that all other engines take."""
        with self._lock:
            return _sum_memory(slot.parts for slot in self._slots if slot is not new)

    def _compute_limit(self, config: EngineConfig) -> int:
        limit = self._memory.compute_limit(config)
        return limit if self._proven_limit is None else min(limit, self._proven_limit)

    def _make_room(self, new: EngineSlot, limit: int) -> bool:
        """Drops engines until at most `limit` bytes, with `new`, stay or no other may go. Returns whether any went."""
        with self._lock:
            went = self._drop_unused(new, limit)
        if went:
            self._memory.release()
        return went

    def _drop_unused(self, new: EngineSlot, limit: int) -> bool:
        n_before = len(self._slots)
        others = {thread: config for thread, config in self._in_use.items() if thread != threading.get_ident()}
        unused = [slot for slot in self._slots if slot is not new and others.get(slot.thread) != slot.config]
        kept = {part for slot in self._slots if slot not in unused for part in slot.parts}
        for slot in unused:
            if _sum_memory(each.parts for each in self._slots) <= limit:
                break
            if any(n_bytes for part, n_bytes in slot.parts.items() if part not in kept):  # else it would free nothing
                self._slots.remove(slot)
        return len(self._slots) < n_before


def _sum_memory(engines: Iterable[Mapping[Any, int]]) -> int:
    """The bytes of several engines; shared memory counts once."""
    parts: dict[Any, int] = {}
    for each in engines:
        for part, n_bytes in each.items():
            parts[part] = max(n_bytes, parts.get(part, 0))
    return sum(parts.values())
