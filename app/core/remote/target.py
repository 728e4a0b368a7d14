"""`openai:MODEL@BASE_URL`: a target behind an OpenAI-compatible endpoint, and which of them a run may name.

Fields that every request sends as well follow behind `#`, as JSON: `#{"top_k":1}`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

from pydantic import AfterValidator, StringConstraints, TypeAdapter, ValidationError

from app.core.errors import BadInputError

PREFIX = "openai:"
EXAMPLE = f"{PREFIX}MODEL@http://HOST/v1"
COMPLETIONS_PATH = "/completions"
CHAT_PATH = "/chat/completions"
INFILL_PATH = "/infill"  # llama.cpp's, beside /v1
KEY_VARIABLE = "BASSLINE_REMOTE_KEY"
HEADERS_VARIABLE = "BASSLINE_REMOTE_HEADERS"
TOKENIZER = "tokenizer"
"""The field behind `#` that is not sent: it names the model whose tokenizer counts."""
_UNQUOTED = '{}[]":,/@'
_OWN_FIELDS = ("model", "prompt", "messages", "stream", "n", "seed", "stop", "max_tokens", "temperature", "top_p")
_TARGET_PATTERN = re.compile(rf"{PREFIX}(?P<model>\S+?)@(?P<base_url>https?://[^\s#]+)(#(?P<extra_body>\S*))?")
SHORTEST_SECRET = 4  # characters; a shorter text is in too many others by chance
_HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
_HeaderValue = Annotated[str, StringConstraints(pattern=r"^[ -~]*$")]
_Headers = dict[_HeaderName, _HeaderValue]
_Endpoint = Annotated[str, StringConstraints(pattern=r"^https?://"), AfterValidator(lambda url: url.rstrip("/"))]
_KEYS = TypeAdapter(dict[_Endpoint, _HeaderValue])
_HEADERS: TypeAdapter[dict[str, Any]] = TypeAdapter(_Headers | dict[_Endpoint, _Headers])


@dataclass(frozen=True, slots=True)
class RemoteTarget:
    """A model by the name its server knows, the address, mostly with `/v1`, fields for every request, and the model
    whose tokenizer counts tokens where the server does not."""

    model: str
    base_url: str
    extra_body: Mapping[str, Any] = field(default_factory=dict, hash=False)
    tokenizer: str = ""


def is_remote(target: str) -> bool:
    """Whether a target names an endpoint, well or badly."""
    return target.startswith(PREFIX)


def parse_target(target: str) -> RemoteTarget:
    """What an `openai:` target names. Raises BadInputError."""
    found = _TARGET_PATTERN.fullmatch(target)
    if found is None:
        raise BadInputError(f"target is {target!r}: use {EXAMPLE}", "target")
    url = found["base_url"]
    try:
        parts = urlsplit(url)
        has_more = parts.username is not None or bool(parts.query)
        parts.port  # noqa: B018 (reading it checks it)
    except ValueError as error:
        raise BadInputError(f"target holds no address: {error}, use {EXAMPLE}", "target") from None
    if not parts.hostname:
        raise BadInputError(f"target is {target!r}: use {EXAMPLE}", "target")
    if has_more:
        raise BadInputError(f"target holds more than an address: put the key into {KEY_VARIABLE} instead", "target")
    extra_body = parse_extra_body(unquote(found["extra_body"])) if found["extra_body"] else {}
    tokenizer = extra_body.pop(TOKENIZER, "")
    return RemoteTarget(found["model"], url.rstrip("/"), extra_body, tokenizer)


def parse_extra_body(text: str) -> dict[str, Any]:
    """The fields behind `#`: what requests send beside ours, and `tokenizer`, which they do not send.

    Raises BadInputError.
    """
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise BadInputError('extra_body is not a JSON object: write it as {"top_k": 1}', "extra_body")
    if own := [name for name in fields if name in _OWN_FIELDS]:
        raise BadInputError(f"extra_body sets {own[0]}, which a run sets itself: leave it out", "extra_body")
    if not isinstance(fields.get(TOKENIZER, ""), str):
        raise BadInputError("extra_body has a tokenizer that is not a text: name a model", "extra_body")
    return fields


def add_extra_body(target: str, text: str) -> str:
    """The target with these fields behind it. Raises BadInputError."""
    if not text:
        return target
    if not is_remote(target) or "#" in target:
        why = "the target has fields behind # already" if is_remote(target) else f"it is for --target {EXAMPLE}"
        raise BadInputError(f"extra_body has no place: {why}, leave it out", "extra_body")
    written = json.dumps(parse_extra_body(text), separators=(",", ":"))
    return f"{target}#{quote(written, safe=_UNQUOTED)}"


def add_tokenizer(target: str, tokenizer: str) -> str:
    """The target that counts tokens with this model's tokenizer. Raises BadInputError."""
    if not tokenizer:
        return target
    if not is_remote(target):
        raise BadInputError(f"tokenizer is for --target {EXAMPLE}: leave it out", "tokenizer")
    plain, _, _ = target.partition("#")
    return add_extra_body(plain, json.dumps({**parse_target(target).extra_body, TOKENIZER: tokenizer}))


def load_secret_headers(base_url: str) -> dict[str, str]:
    """The headers that requests to this endpoint carry, from the environment; they are never stored or logged.

    Raises BadInputError.
    """
    key, headers = _read_secrets()
    own = headers.get(base_url, {}) if _is_by_endpoint(headers) else headers
    token = key if isinstance(key, str) else key.get(base_url, "")
    return {"Authorization": f"Bearer {token or 'none'}", **own}


def list_secrets() -> list[str]:
    """The secrets of all endpoints, to be left out of what is told. Raises BadInputError."""
    key, headers = _read_secrets()
    keys = [key] if isinstance(key, str) else list(key.values())
    values = [text for value in headers.values() for text in ([value] if isinstance(value, str) else value.values())]
    return [text for text in (*keys, *values) if text]


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with *** for the secrets; those of up to three characters stay."""
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return text


def require_secrets_for_each(base_urls: Iterable[str]) -> None:
    """Raises BadInputError if there are several endpoints, and a key or header that does not say which one gets it."""
    endpoints = list(dict.fromkeys(url.rstrip("/") for url in base_urls))
    if len(endpoints) < 2:
        return
    key, headers = _read_secrets()
    is_unclear = {
        KEY_VARIABLE: bool(key) and isinstance(key, str),
        HEADERS_VARIABLE: bool(headers) and not _is_by_endpoint(headers),
    }
    for name, value in ((KEY_VARIABLE, '"..."'), (HEADERS_VARIABLE, '{"x-api-key": "..."}')):
        if is_unclear[name]:
            raise BadInputError(
                f"{name} does not say which of {len(endpoints)} endpoints gets it: write it as "
                f'{{"{endpoints[0]}": {value}}}',
                "target",
            )


def _read_secrets() -> tuple[str | dict[str, str], dict[str, Any]]:
    """(key, headers) as they stand in the environment, each for all endpoints or by endpoint. Raises BadInputError."""
    key: str | dict[str, str] = os.environ.get(KEY_VARIABLE, "").strip()
    try:
        if isinstance(key, str) and key.startswith("{"):
            key = _KEYS.validate_json(key)
    except ValidationError:
        example = f'{KEY_VARIABLE} is not a key: write it as sk-... or as {{"http://HOST/v1": "sk-..."}}'
        raise BadInputError(example, "target") from None
    try:
        return key, _HEADERS.validate_json(os.environ.get(HEADERS_VARIABLE, "").strip() or "{}")
    except ValidationError:
        raise BadInputError(
            f'{HEADERS_VARIABLE} is not a JSON object of texts: write it as {{"x-api-key": "..."}}, or by endpoint as '
            '{"http://HOST/v1": {"x-api-key": "..."}}',
            "target",
        ) from None


def _is_by_endpoint(headers: Mapping[str, Any]) -> bool:
    return any(isinstance(value, dict) for value in headers.values())


def require_allowed_endpoint(target: str, allowed: str) -> None:
    """Raises BadInputError unless the endpoint is one of `allowed` (space-separated addresses).

    A run that somebody submits makes this service send requests, and the operator's key with them.
    """
    url = parse_target(target).base_url
    if url not in {address.rstrip("/") for address in allowed.split()}:
        raise BadInputError(
            f"target names the endpoint {url}, which submitted runs may not use: the operator can add it to "
            "BASSLINE_REMOTE_ENDPOINTS, or use `bassline eval`",
            "target",
        )
