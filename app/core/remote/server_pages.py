"""What a server tells about itself beside OpenAI's endpoints: its name, version, speculation, tokens and counters."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.core.remote.chunks import RemoteServerError
from app.core.remote.connection import ServerConnection
from decoding.request import RequestError

LLAMA_CPP, VLLM, SGLANG, BASSLINE, TENSORRT_LLM = "llama.cpp", "vLLM", "SGLang", "Bassline", "TensorRT-LLM"
_OWNERS = {
    "vllm": VLLM, "sglang": SGLANG, "llamacpp": LLAMA_CPP, "bassline": BASSLINE, "tensorrt_llm": TENSORRT_LLM,
}  # fmt: skip
CONTINUATION_FIELDS = {
    LLAMA_CPP: {},
    VLLM: {"continue_final_message": True, "add_generation_prompt": False},
    SGLANG: {"continue_final_message": True},
}
"""What to send so that a server writes on from an assistant's message at the end, in place of a new one."""
NEUTRAL_SAMPLING: Mapping[str, Mapping[str, Any]] = {
    LLAMA_CPP: {"top_k": 0, "min_p": 0.0},
    VLLM: {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    SGLANG: {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
}
"""Sampling that these servers would otherwise do on their own, from defaults or from the model's generation config."""
COUNTERS = {
    "drafted": ("vllm:spec_decode_num_draft_tokens_total", "llamacpp:spec_decode_num_draft_tokens_total"),
    "accepted": ("vllm:spec_decode_num_accepted_tokens_total", "llamacpp:spec_decode_num_accepted_tokens_total"),
    "cached": ("vllm:prefix_cache_hits_total", "sglang:cached_tokens_total", "llamacpp:prompt_tokens_cached_total"),
}
OLD_SGLANG_PAGE = "get_server_info"  # deprecated; vLLM has a page by the new name
SGLANG_PAGES = "server_info", OLD_SGLANG_PAGE
_METRIC_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{[^}]*\})? ([0-9.eE+-]+)", re.MULTILINE)
_SPECULATIVE = re.compile(r"specul|draft|eagle|mtp", re.IGNORECASE)
MAX_FACT = 300  # characters of what a server says of itself
MAX_DEPTH = 6


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server's own account of itself; empty where it gives none."""

    name: str = ""
    version: str = ""
    speculation: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    has_counters: bool = False


async def read_facts(server: ServerConnection) -> ServerFacts:
    """What the server says of itself, without its speculation.

    Raises RequestRefusedError for a rejected key, RemoteServerError where none answers.
    """
    models, server_header = await server.fetch_page(f"{server.address}/models")
    listed = _parse_object(models).get("data")
    owners = [
        str(model.get("owned_by", "")).lower()
        for model in (listed if isinstance(listed, list) else ())
        if isinstance(model, dict)
    ]
    owner_name = next((_OWNERS[owner] for owner in owners if owner in _OWNERS), "")
    name, version = await _read_name_and_version(server, owner_name)
    metrics = await _fetch_text(server, "metrics")
    has_counters = any(counter in metrics for counters in COUNTERS.values() for counter in counters)
    return ServerFacts((name or server_header)[:MAX_FACT], server.redact(version)[:MAX_FACT], has_counters=has_counters)


async def _read_name_and_version(server: ServerConnection, owner_name: str) -> tuple[str, str]:
    """(name, version) by the pages that each server has; `owner_name` is what the owner of its models suggests."""
    name, version = owner_name, ""
    for page in ("version", "props", *SGLANG_PAGES):
        document = await _fetch_json(server, page)
        if not isinstance(document, dict) or not document:
            continue
        if page == "version" and isinstance(document.get("version"), str):
            name, version = name or VLLM, document["version"]
        elif page == "props" and "build_info" in document:
            name, version = LLAMA_CPP, str(document["build_info"])
        elif page == OLD_SGLANG_PAGE or name == SGLANG:
            return SGLANG, str(document.get("version", ""))
    return name, version


async def read_speculation(server: ServerConnection) -> dict[str, str | int | float | bool]:
    """The speculative settings that the server reports. llama.cpp does so once it has answered something."""
    settings: dict[str, str | int | float | bool] = {}
    for page in ("props", "slots", *SGLANG_PAGES):
        for name, value in _find_speculation(await _fetch_json(server, page)):
            told = server.redact(value)[:MAX_FACT] if isinstance(value, str) else value
            settings[server.redact(name)[:60]] = told
    return settings


async def read_counters(server: ServerConnection) -> dict[str, float]:
    """The server's counters by our names; those that it does not have are left out."""
    text = await _fetch_text(server, "metrics")
    values: dict[str, float] = {}
    for counter, value in _METRIC_LINE.findall(text):
        with contextlib.suppress(ValueError):
            values[counter] = values.get(counter, 0.0) + float(value)
    return {
        name: sum(values[counter] for counter in counters if counter in values)
        for name, counters in COUNTERS.items()
        if any(counter in values for counter in counters)
    }


async def has_single_token(server: ServerConnection, text: str) -> bool:
    """Whether the server says that its model has `text` as one token; False where it does not tell."""
    body = {"content": text, "prompt": text, "parse_special": True, "add_special": False, "add_special_tokens": False}
    with contextlib.suppress(RemoteServerError):
        answer, _ = await server.fetch_page(f"{server.root}/tokenize", body)
        tokens = _parse_object(answer).get("tokens")
        return isinstance(tokens, list) and len(tokens) == 1
    return False


async def _fetch_text(server: ServerConnection, page: str) -> str:
    with contextlib.suppress(RemoteServerError, RequestError):
        text, _ = await server.fetch_page(f"{server.root}/{page}")
        return text
    return ""


async def _fetch_json(server: ServerConnection, page: str) -> Any:
    text = await _fetch_text(server, page)
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    return None


def _parse_object(text: str) -> dict[str, Any]:
    """The JSON object in a text; empty for any other text."""
    with contextlib.suppress(ValueError, RecursionError):
        return document if isinstance(document := json.loads(text), dict) else {}
    return {}


def _find_speculation(document: Any, depth: int = 0) -> Iterator[tuple[str, str | int | float | bool]]:
    """Settings whose names speak of speculation, with their values, down to MAX_DEPTH levels and in the first eight
    items of each list."""
    if isinstance(document, list) and depth < MAX_DEPTH:
        for item in document[:8]:
            yield from _find_speculation(item, depth + 1)
    elif isinstance(document, dict) and depth < MAX_DEPTH:
        for name, value in document.items():
            if isinstance(value, dict | list):
                yield from _find_speculation(value, depth + 1)
            elif _SPECULATIVE.search(name) and value not in (None, ""):
                yield name, value
