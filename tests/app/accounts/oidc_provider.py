"""An OpenID Connect provider on a real socket; tests choose the user and its faults."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from flask import Flask, Response, redirect, request
from joserfc import jwt
from joserfc.jwk import RSAKey
from joserfc.jws import JWSRegistry
from werkzeug.serving import make_server

CLIENT_ID, SECRET = "bassline", "a-client-secret-of-32-characters"
Answer = tuple[dict[str, Any], int]


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
    codes: dict[str, dict[str, Any]] = field(default_factory=dict)  # what was asked for, and the user
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
        app.get("/.well-known/openid-configuration")(self.describe)
        app.get("/jwks")(lambda: {"keys": [self.key.as_dict(private=False)]})
        app.get("/authorize")(self.authorize)
        app.post("/token")(self.give_token)
        app.get("/userinfo")(self.describe_user)
        return app

    def describe(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/jwks",
            "id_token_signing_alg_values_supported": ["RS256", "none"],
            **self.metadata,
        }

    def authorize(self) -> Any:
        asked = request.args
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT_ID)
        assert asked["redirect_uri"] == self.redirect_uri
        assert asked["code_challenge_method"] == "S256"
        assert not any(code["nonce"] == asked["nonce"] for code in self.codes.values())
        answer = {"state": asked["state"], "error": "access_denied"}
        if self.user is not None:
            answer = {"state": asked["state"], "code": secrets.token_urlsafe(32)}
            self.codes[answer["code"]] = {**asked, "user": dict(self.user)}
        return redirect(f"{self.redirect_uri}?{urlencode(answer)}")

    def give_token(self) -> Answer | Response:
        sent, client = request.form, request.authorization
        if client is None or (client.username, client.password) != (CLIENT_ID, SECRET):
            return {"error": "invalid_client"}, 401
        code = self.codes.pop(sent["code"], None)
        digest = hashlib.sha256(sent["code_verifier"].encode()).digest()
        challenge = urlsafe_b64encode(digest).rstrip(b"=").decode()
        if code is None or code["code_challenge"] != challenge or sent["redirect_uri"] != self.redirect_uri:
            return {"error": "invalid_grant"}, 400
        token = secrets.token_urlsafe(32)
        self.tokens[token] = code["user"]
        return {"access_token": token, "token_type": "Bearer", "id_token": self.sign(code)}, 200

    def sign(self, code: dict[str, Any]) -> str:
        now = int(time.time())
        user = code["user"] if self.email_in_token else {"sub": code["user"]["sub"]}
        claims = {"iss": self.issuer, "aud": [CLIENT_ID], "nonce": code["nonce"], "iat": now, "exp": now + 3600, **user}
        claims |= self.claims
        algorithm = claims.pop("alg", "RS256")
        header = {"alg": algorithm, "kid": self.signing_key.kid}
        return jwt.encode(header, claims, self.signing_key, registry=JWSRegistry(algorithms=[algorithm]))

    def describe_user(self) -> Answer:
        user = self.tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        return (user, 200) if user else ({"error": "invalid_token"}, 401)
