"""`openai:MODEL@BASE_URL`: a target behind an OpenAI-compatible endpoint, and which of them a run may name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.core.errors import BadInputError

PREFIX = "openai:"
FORM = f"{PREFIX}MODEL@http://HOST/v1"
KEY = "BASSLINE_REMOTE_KEY"
_FORM = re.compile(rf"{PREFIX}(?P<model>\S+?)@(?P<base_url>https?://\S+)")


@dataclass(frozen=True, slots=True)
class RemoteTarget:
    """A model by the name its server knows, and the address that ends in `/v1`."""

    model: str
    base_url: str


def is_remote(target: str) -> bool:
    """Whether a target names an endpoint, well or badly."""
    return target.startswith(PREFIX)


def parse(target: str) -> RemoteTarget:
    """What an `openai:` target names. Raises BadInputError."""
    found = _FORM.fullmatch(target)
    if found is None:
        raise BadInputError(f"target is {target!r}: use {FORM}", "target")
    url = found["base_url"]
    if urlsplit(url).username is not None or urlsplit(url).query:
        raise BadInputError(f"target holds more than an address: put the key into {KEY} instead", "target")
    return RemoteTarget(found["model"], url.rstrip("/"))


def require_allowed(target: str, allowed: str) -> None:
    """Raises BadInputError unless the endpoint is one of `allowed` (space-separated addresses).

    A run that somebody submits makes this service send requests, and the operator's key with them.
    """
    url = parse(target).base_url
    if url not in {address.rstrip("/") for address in allowed.split()}:
        raise BadInputError(
            f"target names the endpoint {url}, which submitted runs may not use: the operator can add it to "
            "BASSLINE_REMOTE_ENDPOINTS, or use `bassline eval`",
            "target",
        )
