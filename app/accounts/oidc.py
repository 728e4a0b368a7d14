"""Signing in at an OpenID Connect provider by Authlib: authorization code with PKCE, state and nonce."""

from __future__ import annotations

import logging
import re
from typing import Any

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.flask_client import FlaskIntegration, FlaskOAuth2App
from flask import request, session, url_for
from joserfc.errors import JoseError
from requests import RequestException
from werkzeug.wrappers import Response

from app.accounts import users
from app.accounts.models import User
from app.core.errors import ForbiddenError, UnauthorizedError, UnavailableError
from app.web.http import request_context

TIMEOUT_S = 10
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
STATE_PREFIX = "_state_oidc_"  # begins the names under which Authlib keeps a sign-in in the cookie
ASK_OPERATOR = "ask who runs this service"
logging.getLogger("authlib").setLevel(logging.WARNING)  # its debug lines contain the PKCE code verifier


class Provider:
    """The provider that the settings name. What it says about itself is read once per process."""

    def __init__(self) -> None:
        settings = request_context.get_context().settings
        self._issuer = settings.oidc_issuer
        self._client = FlaskOAuth2App(
            FlaskIntegration("oidc"),
            "oidc",
            client_id=settings.oidc_client_id,
            client_secret=settings.oidc_client_secret.get_secret_value(),
            server_metadata_url=f"{self._issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": "openid email",
                "code_challenge_method": "S256",
                "default_timeout": TIMEOUT_S,
            },
        )

    def redirect(self) -> Response:
        """Sends the browser to the provider. Raises UnavailableError if that does not answer or is another one."""
        self._load_metadata()
        for key in [key for key in session if key.startswith(STATE_PREFIX)]:  # of a sign-in that was given up
            del session[key]
        answer = self._client.authorize_redirect(url_for("accounts.finish_oidc", _external=True))
        assert isinstance(answer, Response)
        return answer

    def find_user(self) -> User:
        """The user whom the provider sent back. Raises UnauthorizedError, ForbiddenError or UnavailableError."""
        if refusal := request.args.get("error"):
            code = refusal if re.fullmatch(r"\w{1,60}", refusal) else "without a reason"
            raise UnauthorizedError(f"the provider did not sign you in ({code}): try again, or {ASK_OPERATOR}")
        self._load_metadata()
        try:
            claims = self._read_claims()
        except RequestException:
            raise self._build_unavailable_error() from None
        except AuthlibBaseError as error:
            if error.error == "mismatching_state":
                message = "this sign-in did not begin in this browser, or over an hour ago: begin again"
                raise UnauthorizedError(message) from None
            raise UnauthorizedError(f"the provider did not confirm the sign-in ({error.error}): begin again") from None
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise UnauthorizedError(
                f"the provider's token is not valid ({type(error).__name__}): {ASK_OPERATOR}"
            ) from None
        email = str(claims.get("email") or "")
        if not email or claims.get("email_verified") is not True:
            raise ForbiddenError("the provider has no verified e-mail address of yours: verify it there and try again")
        ctx = request_context.get_context()
        domains = ctx.settings.oidc_domains.lower().split()
        if domains and email.lower().rpartition("@")[2] not in domains:
            raise ForbiddenError(f"{email} may not sign in here: use an address of {' or '.join(domains)}")
        return users.get_provider_user(ctx, self._issuer, str(claims["sub"]), email)

    def _load_metadata(self) -> None:
        try:
            found: dict[str, Any] = self._client.load_server_metadata()
        except (RequestException, ValueError, TypeError):
            raise self._build_unavailable_error() from None
        if found.get("issuer") != self._issuer or not all(found.get(name) for name in ENDPOINTS):
            says = f"calls itself {str(found.get('issuer'))[:200]!r} or names no endpoints"
            self._client.server_metadata.clear()  # the operator may correct the provider
            raise UnavailableError(
                f"the sign-in provider {self._issuer} {says}: set BASSLINE_OIDC_ISSUER to its exact issuer"
            )
        # A token without a signature is never accepted, whatever the provider offers to others.
        names = found.get("id_token_signing_alg_values_supported") or ["RS256"]
        found["id_token_signing_alg_values_supported"] = [name for name in names if name != "none"]

    def _read_claims(self) -> dict[str, Any]:
        """The claims of the validated ID token, with the e-mail address that some providers give separately."""
        token = self._client.authorize_access_token()
        claims = token.get("userinfo")
        if claims is None:
            raise ValueError("no ID token")
        if "email" not in claims and self._client.server_metadata.get("userinfo_endpoint"):
            more = self._client.userinfo(token=token)
            if more.get("sub") == claims["sub"]:  # else it is about another user
                claims = {**more, **claims}
        return dict(claims)

    def _build_unavailable_error(self) -> UnavailableError:
        return UnavailableError(f"the sign-in provider {self._issuer} does not answer: try again, or {ASK_OPERATOR}")
