"""A service with a fake engine behind HTTP, and OpenAI's client on it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import openai

from app.core.context import Context
from app.core.db.database import Database
from app.core.events.bus import MemoryBus
from app.core.settings import Settings
from app.jobs.embedded import EmbeddedWorkers
from app.site.factory import create_app
from app.web.http.waitress_server import WaitressServer
from tests.fakes import FakeEngine, FakeGrader

MODEL = "smollm2-135m"


@contextlib.contextmanager
def client_of(app) -> Iterator[openai.OpenAI]:
    """OpenAI's client on the application, over HTTP."""
    server = WaitressServer(app, "127.0.0.1", 0)

    def run() -> None:
        with contextlib.suppress(OSError):  # waitress knows no other end than a closed socket
            server.run()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    with openai.OpenAI(base_url=f"http://127.0.0.1:{server.effective_port}/v1", api_key="none", max_retries=0) as found:
        yield found
    server.close()
    thread.join(10)


@contextlib.contextmanager
def served_service(folder: Path) -> Iterator[tuple[Context, openai.OpenAI]]:
    """An embedded service with a fake engine, and a client."""
    settings = Settings(_env_file=None, data_dir=folder)
    engine = FakeEngine()
    ctx = Context(
        settings, Database(settings.effective_database_url), MemoryBus(), lambda config, on_progress: engine, FakeGrader
    )
    with EmbeddedWorkers(ctx, "test"), client_of(create_app(ctx)) as client:
        yield ctx, client
    ctx.database.dispose()
