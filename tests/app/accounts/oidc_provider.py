"""An OpenID Connect provider on a real socket, made of Authlib's server side; tests choose the user and its faults."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from authlib.common.security import generate_token
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import AuthorizationCodeMixin, OpenIDCode
from flask import Flask, Response, request
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

CLIENT_ID, SECRET = "bassline", "a-client-secret-of-32-characters"


class Client(ClientMixin):
    """Bassline as the provider knows it."""

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri

    def get_client_id(self) -> str:
        return CLIENT_ID

    def get_default_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_allowed_scope(self, scope: str) -> str:
        return " ".join(word for word in scope.split() if word in ("openid", "email"))

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri == self.redirect_uri

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == SECRET

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_basic"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


class Code(SimpleNamespace, AuthorizationCodeMixin):
    """A code that was given to a browser and is used once."""

    def get_redirect_uri(self) -> str:
        return str(self.redirect_uri)

    def get_scope(self) -> str:
        return str(self.scope)

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> int:
        return int(self.auth_time)

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


@dataclass
class Provider:
    """The provider; `user` is who signs in there, or None for one who refuses."""

    redirect_uri: str = "http://localhost/login/oidc/callback"
    user: dict[str, Any] | None = field(
        default_factory=lambda: {"sub": "7", "email": "ada@x.org", "email_verified": True}
    )
    claims: dict[str, Any] = field(default_factory=dict)  # that replace the right ones of the ID token
    metadata: dict[str, Any] = field(default_factory=dict)  # that replace the right ones
    email_in_token: bool = True
    codes: dict[str, Code] = field(default_factory=dict)
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.key = self.signing_key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
        self.server = make_server("127.0.0.1", 0, self.make_app(), threaded=True)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def make_app(self) -> Flask:
        app = Flask("provider")
        client = Client(self.redirect_uri)
        authorization = AuthorizationServer(
            app,
            query_client=lambda client_id: client if client_id == CLIENT_ID else None,
            save_token=lambda token, request: self.tokens.update({token["access_token"]: request.user}),
        )
        authorization.register_grant(make_grant(self), [make_openid(self), CodeChallenge(required=True)])

        @app.get("/.well-known/openid-configuration")
        def describe() -> dict[str, Any]:
            return {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                "jwks_uri": f"{self.issuer}/jwks",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256", "none"],
                **self.metadata,
            }

        @app.get("/jwks")
        def list_keys() -> dict[str, Any]:
            return {"keys": [self.key.as_dict(private=False)]}

        @app.get("/authorize")
        def authorize() -> Response:
            grant = authorization.get_consent_grant(end_user=self.user)
            answer = authorization.create_authorization_response(grant=grant, grant_user=self.user)
            assert isinstance(answer, Response)
            return answer

        @app.post("/token")
        def give_token() -> Response:
            answer = authorization.create_token_response()
            assert isinstance(answer, Response)
            return answer

        @app.get("/userinfo")
        def describe_user() -> tuple[dict[str, Any], int]:
            user = self.tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
            return (user, 200) if user else ({"error": "invalid_token"}, 401)

        return app


def make_grant(provider: Provider) -> type[grants.AuthorizationCodeGrant]:
    class Grant(grants.AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic"]  # noqa: RUF012

        def generate_authorization_code(self) -> str:
            return str(generate_token(48))

        def save_authorization_code(self, code: str, request: Any) -> Code:
            data = request.payload.data
            provider.codes[code] = Code(
                code=code, redirect_uri=request.payload.redirect_uri, scope=request.payload.scope, user=request.user,
                nonce=data.get("nonce"), auth_time=time.time(), code_challenge=data.get("code_challenge"),
                code_challenge_method=data.get("code_challenge_method"),
            )  # fmt: skip
            return provider.codes[code]

        def query_authorization_code(self, code: str, client: Client) -> Code | None:
            return provider.codes.get(code)

        def delete_authorization_code(self, authorization_code: Code) -> None:
            del provider.codes[authorization_code.code]

        def authenticate_user(self, authorization_code: Code) -> dict[str, Any]:
            return dict(authorization_code.user)

    return Grant


def make_openid(provider: Provider) -> OpenIDCode:
    class OpenID(OpenIDCode):
        def exists_nonce(self, nonce: str, request: Any) -> bool:
            return any(code.nonce == nonce for code in provider.codes.values())

        def resolve_client_private_key(self, client: Client) -> RSAKey:
            return provider.signing_key

        def get_client_algorithm(self, client: Client) -> str:
            return str(provider.claims.get("alg", "RS256"))

        def get_client_claims(self, client: Client) -> dict[str, Any]:
            return {"iss": provider.issuer, "aud": [CLIENT_ID]}

        def get_encode_header(self, client: Client) -> dict[str, Any]:
            return {"alg": self.get_client_algorithm(client), "kid": provider.signing_key.kid}

        def generate_user_info(self, user: dict[str, Any], scope: str) -> dict[str, Any]:
            shown = user if provider.email_in_token else {"sub": user["sub"]}
            return {**shown, **{name: value for name, value in provider.claims.items() if name != "alg"}}

    return OpenID(require_nonce=True)
