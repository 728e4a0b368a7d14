"""One engine a thread, kept until another is needed; never two at once in memory."""

from __future__ import annotations

import threading
import weakref

import pytest

from app.engines import HeldEngines
from decoding.config import EngineConfig
from tests.fakes import FakeEngine

SMALL, LARGE = EngineConfig(target="smollm2-135m"), EngineConfig(target="qwen2.5-coder-0.5b")


def test_an_engine_is_loaded_once_and_let_go_before_another_is_loaded():
    engines = HeldEngines()
    first = engines.get(SMALL, FakeEngine)
    assert engines.get(SMALL, lambda: pytest.fail("loaded twice")) is first
    assert (engines.config(), engines.loaded(), engines.loading()) == (SMALL, ("smollm2-135m", "fake"), None)
    gone = weakref.ref(first)
    del first

    def load():
        assert gone() is None
        assert (engines.loaded(), engines.loading()) == (None, "qwen2.5-coder-0.5b")
        return FakeEngine()

    engines.get(LARGE, load)
    assert engines.config() == LARGE


def test_nothing_is_held_after_loading_failed():
    engines = HeldEngines()
    engines.get(SMALL, FakeEngine)

    def fail():
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        engines.get(LARGE, fail)
    assert (engines.config(), engines.loaded(), engines.loading()) == (None, None, None)


def test_each_thread_has_its_own_and_all_can_be_seen():
    engines = HeldEngines()
    engines.get(SMALL, FakeEngine)
    seen = []
    thread = threading.Thread(target=lambda: seen.append((engines.config(), engines.loaded())))
    thread.start()
    thread.join()
    assert seen == [(None, ("smollm2-135m", "fake"))]
    engines.drop()
    assert engines.loaded() is None
