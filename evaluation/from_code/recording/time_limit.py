"""A plugin of the project's pytest: it ends a test that waits forever, so that the others run. PYTEST_DONT_REWRITE

A wall clock alone would end tests because other programs use the machine. So a test is ended when it used hardly any
CPU for `QUIET_S` seconds, or more than `CPU_S` seconds of it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from . import seen

with open(os.environ["BASSLINE_RECORDING"], encoding="utf-8") as _plan:
    QUIET_S = float(json.load(_plan)["quiet_s"])
CPU_S = 120.0
_MIN_CPU_SHARE = 0.05
"""Share of a CPU from which a test counts as working."""

_others = [name for name in os.environ.pop("PYTEST_PLUGINS", "").split(",") if name and name != __name__]
if _others:  # programs that the tests start do not get this one
    os.environ["PYTEST_PLUGINS"] = ",".join(_others)


def pytest_configure(config: Any) -> None:
    """Notes how pytest was configured."""
    try:
        given = [*config.getini("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
        settings = {name: getattr(value, "value", value) for name, value in config.inicfg.items()}
        known = {name: value for name, value in settings.items() if isinstance(value, (str, list, bool, int))}
        inifile = str(getattr(config, "inipath", None) or "")
        arguments = [*map(str, given), *map(str, config.invocation_params.args)]
        seen.note_session(str(getattr(config, "rootpath", "")), arguments, inifile, known)
    except Exception:
        return


def pytest_collection_finish(session: Any) -> None:
    """Lets hypothesis draw the same inputs in every recording, without time limits that the recorder would exceed."""
    hypothesis: Any = sys.modules.get("hypothesis")
    if hypothesis is None:
        return
    try:
        hypothesis.core.global_force_seed = 0
        given = [
            getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None) for item in session.items
        ]
        for settings in [hypothesis.settings.default, *filter(None, given)]:
            object.__setattr__(settings, "_deadline", None)
            object.__setattr__(settings, "_suppress_health_check", tuple(hypothesis.HealthCheck))
    except Exception:  # another version: its draws may differ
        return


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    """Says which test runs."""
    seen.note_test(item.nodeid)
    try:
        yield
    finally:
        seen.note_test("")


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_setup(item: Any) -> Iterator[None]:
    """Limits the fixtures of a test."""
    yield from _limit_test(item)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Limits a test."""
    yield from _limit_test(item)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: Any) -> Iterator[None]:
    """Limits the end of its fixtures."""
    yield from _limit_test(item)


def _limit_test(item: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread() or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield  # no signal can end it, or another plugin's alarm does
        return
    started = last = time.process_time()

    def look(_signal: int, _frame: Any) -> None:
        nonlocal last
        now = time.process_time()
        if now - last > QUIET_S * _MIN_CPU_SHARE and now - started < CPU_S:
            last = now
            return
        seen.note_ended(item.nodeid)
        pytest.fail("it waits without end, or needs too long, and was ended by Bassline")

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, QUIET_S, QUIET_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
