"""Logs: one form for our lines and the lines of every library, in every process; secrets never reach them."""

from __future__ import annotations

import datetime as dt
import io
import json
import logging
import os
import re
import sys
import threading
from collections.abc import MutableMapping
from types import TracebackType
from typing import Any

import structlog
from structlog.typing import Processor

from app.core.errors import BadInputError
from app.core.settings import Settings, load_settings
from app.core.terminal import escape_control

HIDDEN = "***"
TRACEBACK = "exception"
_SECRET_NAME = re.compile(r"password|secret|token|authorization|cookie|api_?key", re.IGNORECASE)
_SECRET_TEXT = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)|\b(bass_[0-9a-f]{8})_[\w-]+|\b([Bb]earer) +[\w.~+/=-]+")
_COUNTS = ("n_tokens", "max_tokens")  # tokens of a model


def configure(settings: Settings) -> None:
    """Sends structlog and logging to stderr, as console lines or JSON. Safe to call twice."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if settings.log_format == "json":
        last += [structlog.processors.format_exc_info, hide_secrets, structlog.processors.JSONRenderer(default=str)]
    else:
        plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
        last += [structlog.processors.format_exc_info, hide_secrets, escape_event, plain]
    # Celery's worker may call this again after `redirect_stdio_to_log`: written to that stream, each line would be
    # wrapped in another.
    handler = logging.StreamHandler(sys.__stderr__ if isinstance(sys.stderr, _LogStream) else sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=last, foreign_pre_chain=shared))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    logging.captureWarnings(True)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def redirect_stdio_to_log(settings: Settings) -> None:
    """For a process whose output is its log: what libraries print, and what ends it, become lines of the log.

    Does nothing unless lines are JSON: people read the console form. Call after `configure`.
    """
    if settings.log_format != "json":
        return
    sys.stdout = sys.stderr = _LogStream()
    sys.excepthook = _log_exception
    threading.excepthook = lambda found: _log_exception(found.exc_type, found.exc_value, found.exc_traceback)


def must_write_json_lines() -> bool:
    """Whether a sentence for people must be a line of the log: nobody sits at a terminal, and logs are JSON."""
    try:
        form: str | None = load_settings().log_format
    except BadInputError:
        form = os.environ.get("BASSLINE_LOG_FORMAT")
    return form == "json" and not os.isatty(2)


def write_line(text: str, level: str = "info") -> None:
    """Writes one JSON line to stderr whatever the log's level. Takes no lock: signal handlers may call it."""
    line = {
        "event": redact_text(text),
        "level": level,
        "logger": "app",
        "timestamp": dt.datetime.now(dt.UTC).isoformat(),
    }
    os.write(2, f"{json.dumps(line)}\n".encode())


class _LogStream(io.TextIOBase):
    """Replaces stdout and stderr: each line becomes a line of the log once it has ended, or is flushed."""

    def __init__(self) -> None:
        super().__init__()
        self._open_line = threading.local()  # its `text`: what the thread has written since its last line break

    def write(self, text: str) -> int:
        # The mark is no line break, so it ends the last piece, which is the open line.
        *lines, rest = f"{getattr(self._open_line, 'text', '')}{text}.".splitlines()
        self._open_line.text = rest[:-1]
        self._write_lines(lines)
        return len(text)

    def flush(self) -> None:
        rest, self._open_line.text = getattr(self._open_line, "text", ""), ""
        self._write_lines([rest])

    def _write_lines(self, lines: list[str]) -> None:
        for line in filter(str.strip, lines):
            write_line(line, "warning")


def _log_exception(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if not issubclass(kind, SystemExit):
        logging.getLogger("app").critical("ended by an exception", exc_info=(kind, error or kind(), trace))


def hide_secrets(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor: values named like a secret, and passwords and tokens inside texts, become ***."""
    for name, value in event.items():
        if _SECRET_NAME.search(name) and name not in _COUNTS:
            event[name] = HIDDEN
        elif isinstance(value, str):
            event[name] = redact_text(value)
        elif isinstance(value, BaseException):
            event[name] = redact_text(str(value))
    return event


def escape_event(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor: escapes control characters; only a traceback keeps its line breaks."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = escape_control(value) if name == TRACEBACK else escape_control(value, kept="\t")
    return event


def redact_text(text: str) -> str:
    """The text without the passwords of URLs and without tokens."""
    return _SECRET_TEXT.sub(_strip_secret, text)


def _strip_secret(found: re.Match[str]) -> str:
    user, token, bearer = found.groups()
    if token:
        return f"{token}_{HIDDEN}"
    return f"{bearer} {HIDDEN}" if bearer else f"{user}:{HIDDEN}"
