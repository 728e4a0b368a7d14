"""What a model reference means, and that the registry can be trusted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from decoding.models import registry
from decoding.models.errors import UnknownModelError
from decoding.models.registry import HubModel, KnownModel, LocalFolder, LocalGguf, WheelSource

KEYS = ["smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"]


def test_the_known_models_are_listed_smallest_first() -> None:
    assert [entry.ref for entry in registry.list_models()] == KEYS
    assert [entry.bytes for entry in registry.list_models()] == sorted(entry.bytes for entry in registry.list_models())


@pytest.mark.parametrize("entry", registry.list_models(), ids=lambda entry: entry.ref)
def test_the_parts_of_a_wheel_source_add_up_to_the_file(entry: KnownModel) -> None:
    wheels = [source for source in entry.sources if isinstance(source, WheelSource)]
    assert wheels
    assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256)
    for source in wheels:
        assert sum(part.bytes for part in source.parts) == entry.bytes
        assert len({part.sha256 for part in source.parts}) == len(source.parts)
        assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", part.requirement) for part in source.parts)
        assert all("{" not in part.member for part in source.parts)


def test_a_key_names_its_entry() -> None:
    entry = registry.resolve("qwen2.5-coder-0.5b")
    assert isinstance(entry, KnownModel)
    assert entry.filename.endswith(".gguf")


def test_a_hub_reference_may_name_a_revision() -> None:
    plain, pinned = registry.resolve("hf:Qwen/Qwen3-0.6B"), registry.resolve("hf:Qwen/Qwen3-0.6B@refs/pr/1")
    assert isinstance(plain, HubModel)
    assert isinstance(pinned, HubModel)
    assert (plain.repo, plain.revision) == ("Qwen/Qwen3-0.6B", None)
    assert pinned.revision == "refs/pr/1"
    assert plain.slug != pinned.slug  # two revisions are two models in the cache


def test_local_files_are_told_apart_by_their_path(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place / "tiny").mkdir(parents=True)
        (tmp_path / place / "tiny" / "config.json").write_text(json.dumps({}))
        (tmp_path / place / "x.gguf").write_bytes(b"GGUF")
    one, other = (registry.resolve(str(tmp_path / place / "tiny")) for place in ("a", "b"))
    assert isinstance(one, LocalFolder)
    assert one.name == other.name == "tiny"
    assert one.slug != other.slug
    assert isinstance(registry.resolve(str(tmp_path / "a" / "x.gguf")), LocalGguf)


@pytest.mark.parametrize(
    ("ref", "complaint"),
    [
        ("qwen", "'qwen' is not known"),
        ("Qwen/Qwen3-0.6B", "is not known"),
        ("hf:nothing", "not of the form hf:owner/name"),
        ("missing.gguf", "does not exist"),
        ("/", "has no config.json"),
        (__file__, "is not a .gguf file"),
    ],
)
def test_an_unknown_reference_is_answered_with_everything_that_would_work(ref: str, complaint: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        registry.resolve(ref)
    assert complaint in str(caught.value)
    assert all(known in str(caught.value) for known in [*KEYS, "hf:owner/name", ".gguf"])


REPOSITORIES = [
    "..", "a/..", "../..", "./a", "a/.", "-a/b", "a/-b", "a/b-", "a/.b", "a/b.", "a/b.git", "a/b--c", "a/b..c", "/a",
    "a/", "a//b", "a/b/c", "a b/c", "a/b\n", "ä/b", f"a/{'b' * 97}", f"{'a' * 97}/b", "a/b%2e", "a\\b/c",
]  # fmt: skip
REVISIONS = [
    "", "..", "../../x", "../x", "x/..", "x/../y", "./x", "x/./y", "-x", "x/-y", "/x", "x/", "x//y", "x y", "x\n", "x.",
    "x.lock", "x.lock/y", "x..y", "ä", "x@{1}", "x~1", "x?a=b", "x#y", "%2e%2e/x", "a" * 256,
]  # fmt: skip
ALLOWED = ["hf:bigcode/starcoder2-3b", "hf:a/b", "hf:01-ai/Yi-1.5-9B", "hf:_a/b_@v1.0", "hf:a/b@refs/pr/1"]


@pytest.mark.parametrize("repository", REPOSITORIES)
def test_a_repository_that_would_leave_its_place_is_refused(repository: str) -> None:
    with pytest.raises(UnknownModelError, match=r"hf:owner/name|is not a repository"):
        registry.resolve(f"hf:{repository}")


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revision_that_would_leave_its_place_is_refused(revision: str) -> None:
    with pytest.raises(UnknownModelError, match=r"hf:owner/name|has no valid revision"):
        registry.resolve(f"hf:a/b@{revision}")


@pytest.mark.parametrize("ref", [*ALLOWED, "hf:a/b@" + "c" * 40])
def test_names_that_the_hub_allows_are_taken(ref: str) -> None:
    assert isinstance(registry.resolve(ref), HubModel)


@pytest.mark.parametrize("ref", ["", " ", "\n", "x" * 300, "x/" * 3000, "~nobody-of-this-name/x", "a\0b", "\udcff"])
def test_what_no_path_can_be_is_refused_in_a_sentence(ref: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        registry.resolve(ref)
    assert "give one of" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_folder_in_the_cache_stays_a_file_name_whatever_the_model_is_called(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 120 + ".gguf")
    path.write_bytes(b"GGUF")
    slug = registry.resolve(str(path)).slug
    assert len(f"{slug}.lock".encode()) <= 255
    assert "/" not in slug
    (tmp_path / slug).mkdir()


def test_listing_and_fetching_import_no_torch() -> None:
    """The web process lists models and the command line pulls them: both would wait seconds for torch."""
    program = """
import sys
from decoding.models import errors, fetch, loaded, registry, trusted_code
from kernels import cache
registry.list_models()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
