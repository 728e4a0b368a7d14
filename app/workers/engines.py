"""The engine a worker thread holds in memory: the last one used, kept until a run needs another."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from app.context import Context
from app.ports import Engine, OnProgress

if TYPE_CHECKING:
    from decoding.config import EngineConfig


class _Held(threading.local):
    config: EngineConfig | None = None
    engine: Engine | None = None


_held = _Held()
_in_memory: dict[int, tuple[str, str]] = {}  # thread -> (target, device), for the workers table
_loading: dict[int, str] = {}  # thread -> target, likewise


def get(ctx: Context, config: EngineConfig, on_progress: OnProgress) -> Engine:
    """This thread's engine for `config`, loaded and warm. Whatever the loader raises passes through."""
    if _held.engine is None or _held.config != config:
        drop()  # two models side by side may not fit into memory
        _loading[threading.get_ident()] = config.target
        try:
            _held.engine = ctx.load_engine(config, on_progress)
        finally:
            del _loading[threading.get_ident()]
        _held.config = config
        device = _held.engine.provenance().get("device") or config.device
        _in_memory[threading.get_ident()] = (config.target, str(device))
    return _held.engine


def held() -> EngineConfig | None:
    """What this thread's engine was made for; None without one."""
    return _held.config


def drop() -> None:
    """Forgets this thread's engine, so that its memory can be used."""
    _held.engine = _held.config = None
    _in_memory.pop(threading.get_ident(), None)


def loaded_model() -> str | None:
    """The target that some thread of this process holds, or None."""
    return next((target for target, _ in _in_memory.values()), None)


def loading_model() -> str | None:
    """The target that some thread of this process is loading now, or None."""
    return next(iter(_loading.values()), None)


def loaded_device() -> str | None:
    """The device it is on, or None."""
    return next((device for _, device in _in_memory.values()), None)
