"""Errors by cause. Pages, REST and the command line turn each into their own form in one place."""

from __future__ import annotations


class BasslineError(Exception):
    """One clear sentence naming what is wrong and the remedy; the base of every error we raise for users."""

    status = 500
    code = "error"
    exit_code = 1


class BadInputError(BasslineError):
    """The request itself is wrong. `field` names the offending field where there is one."""

    status = 422
    code = "bad_input"
    exit_code = 2

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class TooLargeError(BadInputError):
    """More than is taken at once."""

    status = 413
    code = "too_large"


class NotFoundError(BasslineError):
    """No such run, task, dataset, model or token."""

    status = 404
    code = "not_found"
    exit_code = 2


class ConflictError(BasslineError):
    """The thing exists but is in a state that does not allow this."""

    status = 409
    code = "conflict"


class CancelledError(BasslineError):
    """Somebody cancelled what this waited for. The status is one after which clients do not try again."""

    status = 410
    code = "cancelled"


class UnavailableError(BasslineError):
    """Something this needs (sandbox, database, broker, port) is not there now."""

    status = 503
    code = "unavailable"


class BusyError(UnavailableError):
    """There is no room for this request now: too many are open, or no worker took it in time.

    The same request may succeed a little later.
    """

    code = "busy"


class OverloadedError(BasslineError):
    """More work waits than can be done in time; in `retry_after_s` seconds there should be room."""

    status = 429
    code = "overloaded"

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class UnauthorizedError(BasslineError):
    """No token, or one that is not valid."""

    status = 401
    code = "unauthorized"


class ForbiddenError(BasslineError):
    """The caller may not do this."""

    status = 403
    code = "forbidden"
