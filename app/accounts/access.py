"""Authentication by token or session, refusal of requests whose scope is too low, and a limit on wrong tokens."""

from __future__ import annotations

import hashlib
import math
import time

from flask import Response, current_app, g, redirect, request, session, url_for
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from werkzeug.exceptions import TooManyRequests

from app.accounts import service, users
from app.core.errors import ForbiddenError, UnauthorizedError
from app.web.http import sites
from app.web.http.request_context import get_context, get_singleton
from app.web.http.security import LOCAL, PUBLIC, SAFE, Caller, get_scope, is_api

FAILURE_RATE = parse("60 per minute")
VALID_LATELY_S = 24 * 3600  # after its last request


class FailureLimit:
    """Counts failed tokens per address, in this process.

    Tokens that were valid lately are looked up whatever others at their address do, so that nobody can lock them out.
    """

    def __init__(self) -> None:
        self._storage = MemoryStorage()
        self._limiter = FixedWindowRateLimiter(self._storage)

    def require_below_limit(self, address: str, token: str) -> None:
        """Raises TooManyRequests for an address with too many failures, unless the token was valid lately."""
        if self._limiter.test(FAILURE_RATE, address) or self._storage.get(_hash_token(token)):
            return
        left_s = self._limiter.get_window_stats(FAILURE_RATE, address).reset_time - time.time()
        g.retry_after_s = max(math.ceil(left_s), 1)
        raise TooManyRequests("too many tokens that are not valid came from this address: try again in a minute")

    def count_failure(self, address: str) -> None:
        """Counts a token of this address that was not valid."""
        self._limiter.hit(FAILURE_RATE, address)

    def remember_valid_token(self, token: str) -> None:
        """Notes a token that was valid."""
        key = _hash_token(token)
        self._storage.incr(key, VALID_LATELY_S)
        self._storage.expirations[key] = time.time() + VALID_LATELY_S


def _hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def authorize_request() -> Response | None:
    """Identifies the caller for `security.get_caller`. Returns a redirect if they must sign in first.

    Raises UnauthorizedError or ForbiddenError.
    """
    settings = get_context().settings
    if request.method not in SAFE:
        sites.refuse_other_sites(request)
    if request.endpoint in PUBLIC:
        return None
    if settings.require_tokens:
        g.caller = _identify_caller()
        if g.caller is None:
            return _redirect_to_login()
    else:
        # `serve` and `web` then listen on loopback only, but another server may be started by hand.
        sites.refuse_other_machines(request)
        sites.refuse_other_names(request)
        g.caller = LOCAL
    if request.endpoint is not None:
        needed = get_scope(current_app.view_functions[request.endpoint], request.method)
        if not g.caller.scope.allows(needed):
            raise ForbiddenError(
                f"this needs the scope {needed}, yours is {g.caller.scope}: use a token that allows it"
            )
    return None


def _identify_caller() -> Caller | None:
    """The caller by token or by browser session; a session may only read on the API. None without either."""
    if "Authorization" in request.headers:
        given = request.authorization
        if given is None or given.type != "bearer" or not given.token:
            raise UnauthorizedError("the Authorization header is not understood: send `Authorization: Bearer TOKEN`")
        limit = get_singleton(FailureLimit)
        limit.require_below_limit(request.remote_addr or "", given.token)
        try:
            found = service.authenticate(get_context(), given.token)
        except UnauthorizedError:
            limit.count_failure(request.remote_addr or "")
            raise
        limit.remember_valid_token(given.token)
        return found
    user = users.find_signed_in_user(get_context(), session)
    return None if is_api(request.path) and request.method not in SAFE else user


def _redirect_to_login() -> Response:
    """Redirects people to the login page. Raises UnauthorizedError for programs."""
    if is_api(request.path) or request.method not in SAFE:
        raise UnauthorizedError("this needs a token: send `Authorization: Bearer TOKEN`, made on the page Tokens")
    answer = redirect(url_for("accounts.login", next=request.full_path.rstrip("?")))
    assert isinstance(answer, Response)
    return answer
