"""Logs: one form for our lines and the lines of every library, in every process; secrets never reach them."""

from __future__ import annotations

import logging
import re
from collections.abc import MutableMapping
from typing import Any

import structlog
from structlog.typing import Processor

from app.core.settings import Settings
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
    handler = logging.StreamHandler()
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
