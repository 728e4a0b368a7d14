"""`bassline serve`, and the parts of the stack: `web`, `worker`, `beat`."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys

import click
import structlog
from celery.apps import worker as celery_worker
from celery.signals import celeryd_init
from celery.worker import WorkController

from app.cli import common
from app.core import observability
from app.core.broker import queues
from app.core.broker.celery_app import celery_app, require_broker
from app.core.context import Context, make_context, set_current
from app.core.errors import BadInputError, UnavailableError
from app.core.settings import WEB_THREADS
from app.jobs import reaper
from app.jobs.database_lock import SERVE
from app.jobs.embedded import EmbeddedWorkers
from app.site.factory import create_app, create_server_app
from app.workers.service import QUEUES_VARIABLE

log = structlog.get_logger(__name__)
HOST, PORT = "127.0.0.1", 8000
STOP_S = 10  # grace period for running requests; live views reconnect to another process

host_option = click.option("--host", default=HOST, show_default=True, help="address to listen on")
port_option = click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True)


@click.command()
@host_option
@port_option
def serve(host: str, port: int) -> None:
    """Pages, API and workers in one process, over SQLite: nothing else to start.

    Example:
        bassline serve
        bassline serve --port 9000
    """
    from app.web.http.waitress_server import WaitressServer  # noqa: PLC0415

    ctx = make_context()
    _refuse_public(ctx, host)
    _refuse_taken(host, port)
    pages = create_server_app(ctx)  # before the workers: hides all objects so far from the garbage collector
    with EmbeddedWorkers(ctx, SERVE):
        try:
            server = WaitressServer(pages, host, port)
        except OSError as error:
            raise _build_port_error(host, port, error) from None
        signal.signal(signal.SIGTERM, _exit_on_signal)
        click.echo(f"Bassline is at http://{host}:{server.effective_port}  (Ctrl-C stops it)", err=True)
        try:
            server.run()
        finally:
            server.close()
            click.echo("stopping: running tasks are put back and continue at the next start", err=True)


@click.command()
@host_option
@port_option
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="gunicorn processes")
@click.option("--threads", type=click.IntRange(2, 256), default=WEB_THREADS, show_default=True, help="threads of each")
def web(host: str, port: int, workers: int, threads: int) -> None:
    """Pages and API only (gunicorn), for the stack: needs Redis and a migrated database.

    Example:
        BASSLINE_BROKER_URL=redis://redis:6379/0 bassline web --host 0.0.0.0
    """
    from gunicorn.app.wsgiapp import WSGIApplication  # type: ignore[import-untyped]  # noqa: PLC0415

    ctx = common.open_context()
    require_broker(ctx.settings, "web")
    _refuse_public(ctx, host)
    _refuse_taken(host, port)
    create_app(ctx)  # a wrong setting stops the program here, not in every worker
    observability.redirect_stdio_to_log(ctx.settings)
    sys.argv = [
        "gunicorn",
        f"--bind={host}:{port}",
        f"--workers={workers}",
        f"--threads={threads}",
        "--worker-class=gthread",
        f"--graceful-timeout={STOP_S}",
        "--logger-class=app.web.http.gunicorn_log.GunicornLogger",
        "--no-control-socket",  # nobody uses it, and a read-only home has no place for it
        "app.site.wsgi:application",
    ]
    WSGIApplication("%(prog)s [OPTIONS]").run()


@click.command()
@click.option(
    "--queues",
    "names",
    default=",".join(queues.ALL),
    show_default=True,
    help="queues to consume, the most urgent first",
)
@click.option("--name", default="bassline", show_default=True, help="Celery node name; one per process on a host")
def worker(names: str, name: str) -> None:
    """A worker process: one for each GPU, and some for the sandbox.

    Example:
        CUDA_VISIBLE_DEVICES=0 bassline worker --queues gpu.interactive,gpu.batch --name gpu0
        bassline worker --queues exec.interactive,exec --name exec
    """
    unknown = [part for part in names.split(",") if part not in queues.ALL]
    if unknown:
        raise BadInputError(f"queue {unknown[0]!r} is not known: use some of {', '.join(queues.ALL)}", "queues")
    ctx = common.open_context()
    require_broker(ctx.settings, "worker")
    set_current(ctx)
    observability.redirect_stdio_to_log(ctx.settings)
    os.environ[QUEUES_VARIABLE] = names
    if ctx.settings.log_format == "json":
        # Celery's lines about signals go past logging and past sys.stdout, to the file descriptor.
        celery_worker.safe_say = lambda text, *_: observability.write_line(text)  # type: ignore[attr-defined]
    started: list[WorkController] = []
    celeryd_init.connect(lambda instance, **_: started.append(instance), weak=False)
    celery_app.worker_main(
        [
            "--quiet",  # no banner between the lines of the log
            "worker",
            f"--queues={names}",
            f"--hostname={name}@%h",
            "--loglevel=WARNING",  # of billiard's lines before our own logging is set up in a child
            "--without-gossip",
            "--without-mingle",
        ]
    )
    # worker_main forgets how it ended.
    sys.exit(started[0].exitcode or 0)


@click.command()
def beat() -> None:
    """The timer that looks for lost jobs, for the stack: run exactly one.

    Example:
        BASSLINE_BROKER_URL=redis://redis:6379/0 bassline beat
    """
    ctx = common.open_context()
    require_broker(ctx.settings, "beat")
    observability.redirect_stdio_to_log(ctx.settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ctx.stopping.set())
    sweeps = reaper.make_reaper_thread(ctx)
    sweeps.start()
    log.info("beat: looks for lost jobs")
    ctx.stopping.wait()
    sweeps.stop(STOP_S)
    log.info("beat: stopped")


def _exit_on_signal(_signal: int, _frame: object) -> None:
    raise SystemExit(0)  # as Ctrl-C: the server ends, running tasks go back to their queues


def _refuse_public(ctx: Context, host: str) -> None:
    """Without tokens the service belongs to the user of this machine alone."""
    loopback = {HOST, "localhost", "::1"}
    if host not in loopback and not ctx.settings.require_tokens:
        raise BadInputError(
            f"host {host} can be reached by others: set BASSLINE_REQUIRE_TOKENS=true and make a user with "
            f"`bassline users create`, or stay on {HOST}",
            "host",
        )


def _refuse_taken(host: str, port: int) -> None:
    """Raises UnavailableError if the port is taken; before workers start."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise _build_port_error(host, port, error) from None


def _build_port_error(host: str, port: int, error: OSError) -> UnavailableError:
    return UnavailableError(f"cannot listen on {host}:{port} ({error.strerror}): choose another with --port")
