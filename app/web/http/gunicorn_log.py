"""gunicorn's log lines in the format of all others."""

from __future__ import annotations

from gunicorn.config import Config  # type: ignore[import-untyped]
from gunicorn.glogging import Logger  # type: ignore[import-untyped]


class GunicornLogger(Logger):  # type: ignore[misc]
    """Passes its lines to the root logger of core/observability.py; http/request_log.py logs the requests."""

    def setup(self, cfg: Config) -> None:
        """Called by gunicorn in place of its own handlers and formats."""
        self.error_log.propagate = True
        self.access_log.disabled = True
