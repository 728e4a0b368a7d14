"""What a process works with: settings, database, events, broker and the two ports, made once and passed around."""

from __future__ import annotations

import functools
import os
import socket
import threading
from collections import Counter
from dataclasses import dataclass, field

from app.core import ports
from app.core.broker import broker
from app.core.broker.broker import Broker
from app.core.broker.turns import TurnScheduler
from app.core.db.archives import read_project_archive
from app.core.db.database import Database
from app.core.engines import EnginePool
from app.core.events.bus import EventBus, create_event_bus
from app.core.remote.servers import CommandServers
from app.core.settings import WEB_DOWNLOADS, Settings, load_settings
from app.core.states import WorkStep
from decoding.models import trusted_code

CACHE_DIR_VARIABLE = "BASSLINE_CACHE_DIR"
SHARES = 3  # one caller holds at most one place in so many


class CallerPool:
    """`size` places for what holds threads of a web process, such as live views.

    One caller gets at most a third of them, and at least one.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.share = max(size // SHARES, 1)

    def acquire(self, caller: str) -> bool:
        """Takes a place for the caller; False if the caller's share or all places are taken."""
        with self._lock:
            if self._held[caller] >= self.share or self._held.total() >= self._size:
                return False
            self._held[caller] += 1
            return True

    def release(self, caller: str) -> None:
        """Gives one of the caller's places back."""
        with self._lock:
            self._held[caller] -= 1
            self._held += Counter()  # forgets callers without a place


@dataclass(slots=True)
class Context:
    """One per process. Tests build their own with fakes for `load_engine` and `make_grader`.

    `stopping` is set when the process shuts down: jobs are returned within a second and stay claimable.
    `completion_slots` limits how many web threads wait for completions, `views` how many serve live views and
    `downloads` how many send files, so that the pages stay reachable. `engines` are the ones that its worker threads
    hold, `servers` the remote servers that it starts; `turns` is which runs this worker served last, by step.
    `cpu_lock` is held while a thread decodes against the clock on a CPU, or grades (app/jobs/work/cpu_turns.py);
    `admission_lock` while it is decided whether a completion is accepted, until it is stored.
    """

    settings: Settings
    database: Database
    bus: EventBus
    load_engine: ports.EngineLoader = ports.load_engine
    make_grader: ports.GraderFactory = ports.SandboxGrader
    stopping: threading.Event = field(default_factory=threading.Event)
    worker_name: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")
    broker: Broker = field(init=False)
    engines: EnginePool = field(init=False)
    servers: CommandServers = field(init=False, default_factory=CommandServers)
    completion_slots: threading.BoundedSemaphore = field(init=False)
    views: CallerPool = field(init=False)
    downloads: CallerPool = field(init=False)
    turns: dict[WorkStep, TurnScheduler] = field(default_factory=dict)
    cpu_lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    admission_lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.broker = broker.create_broker(self.settings)
        self.engines = EnginePool(ports.EngineMemory(self.settings.engine_memory))
        self.completion_slots = threading.BoundedSemaphore(self.settings.max_streams)
        self.views = CallerPool(self.settings.max_views)
        self.downloads = CallerPool(WEB_DOWNLOADS)


def make_context(settings: Settings | None = None) -> Context:
    """A context from the settings of this process; connects to nothing yet."""
    settings = settings or load_settings()
    if settings.cache_dir is not None:
        os.environ[CACHE_DIR_VARIABLE] = str(settings.cache_dir)  # decoding/ reads it there and knows no settings
    if settings.trusted_code:
        os.environ[trusted_code.VARIABLE] = settings.trusted_code
    database = Database(settings.effective_database_url)
    grader = functools.partial(
        ports.SandboxGrader, settings.packages, functools.partial(read_project_archive, database)
    )
    return Context(settings, database, create_event_bus(settings.broker_url), make_grader=grader)


_current: list[Context] = []


def set_current(context: Context) -> None:
    """Makes `context` the one of this process's Celery tasks, which Celery calls with nothing but a row id."""
    _current[:] = [context]


def get_current() -> Context:
    """The context of this process's Celery tasks, made from the settings on first use (a worker's child process)."""
    if not _current:
        set_current(make_context())
    return _current[0]
