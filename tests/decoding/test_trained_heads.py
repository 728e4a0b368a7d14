"""A head is stored whole, found by its target, and refused for any other target, tokenizer or weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from filelock import Timeout

from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models import fetch, trained_heads
from decoding.models.cache_folders import make_lock
from decoding.models.dflash import DFlash
from decoding.models.errors import ModelError
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import HeadRecord
from decoding.training.initial import build_head
from kernels.cache import cache_folder
from tests.decoding.conftest import EOS, SaveModel, tiny_qwen2
from tests.thorough import thorough


@pytest.fixture
def model(save_model: SaveModel) -> str:
    """A tiny model in a folder, and an empty cache."""
    return save_model(tiny_qwen2(), name="model")


def store(model: str, target: LoadedModel, *, head: DFlash | None = None, **changes: object) -> HeadRecord:
    return trained_heads.store(
        replace(target, ref=model),
        head or a_head(target),
        lambda _stored, sha256, n_bytes: replace(
            HeadRecord(model, fetch.ensure(model).sha256, sha256, "trained", "2026-01-01", 1, n_bytes, 129, [0, 1, 1]),
            **changes,  # type: ignore[arg-type]
        ),
    )


def a_head(target: LoadedModel) -> DFlash:
    return build_head(target, (0, 1, 1), torch.arange(0, EOS + 1, 2), seed=0)


def files(model: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in trained_heads.get_head_folder(model).iterdir()}


def load(model: str, drafter: str = "trained") -> Engine:
    return Engine.load(EngineConfig(model, drafter, dtype="float32"))


def test_a_stored_head_is_found_and_replaced_as_a_whole(model: str, target: LoadedModel) -> None:
    assert trained_heads.find(model) is None
    assert trained_heads.list_heads() == []
    first = store(model, target)
    assert trained_heads.find(model) == first
    second = store(model, target, hours=2.0)
    assert trained_heads.list_heads() == [second]
    assert sorted(path.name for path in trained_heads.get_head_folder(model).iterdir()) == [
        "bassline.json",
        "config.json",
        "model.safetensors",
    ]
    assert [path.name for path in trained_heads.get_heads_folder().iterdir()] == [
        trained_heads.get_head_folder(model).name
    ]


def damaged(target: LoadedModel, change: Callable[[DFlash], object]) -> DFlash:
    head = a_head(target)
    with torch.no_grad():
        change(head)
    return head


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda head: head.lm_head.weight.fill_(float("nan")), r"lm_head\.weight has values that are not finite"),
        (lambda head: head.norm.weight.fill_(3.4e38), r"norm\.weight has values that are not finite"),
        (lambda head: head.d2t[-1].add_(-2), "names token 254 more than once"),
    ],
    ids=["NaN", "beyond bfloat16", "a token twice"],
)
def test_a_head_that_would_decode_wrongly_leaves_the_old_one(
    change: Callable[[DFlash], object], why: str, model: str, target: LoadedModel
) -> None:
    store(model, target)
    before = files(model)
    with pytest.raises(ModelError, match=why):
        store(model, target, head=damaged(target, change))
    assert files(model) == before
    assert [path.name for path in trained_heads.get_heads_folder().iterdir()] == [
        trained_heads.get_head_folder(model).name
    ]


def test_a_head_that_could_not_be_measured_leaves_the_old_one(model: str, target: LoadedModel) -> None:
    first = store(model, target)
    before = files(model)

    def measure(_stored: DFlash, _sha256: str, _n_bytes: int) -> HeadRecord:
        assert trained_heads.find(model) == first, "the old one serves until the new one was measured"
        assert trained_heads.list_heads() == [first]
        with pytest.raises(Timeout):  # another process that stores one waits: it would empty the folder of this one
            make_lock(cache_folder(), f"drafter-{trained_heads.get_head_folder(model).name}-new").acquire(timeout=0)
        raise RuntimeError("the measurement failed")

    with pytest.raises(RuntimeError, match="measurement failed"):
        trained_heads.store(replace(target, ref=model), a_head(target), measure)
    assert files(model) == before
    assert load(model).head is not None


def test_a_process_killed_between_the_renames_leaves_the_old_head(model: str, target: LoadedModel) -> None:
    first = store(model, target)
    place = trained_heads.get_head_folder(model)
    place.rename(place.with_name(f".{place.name}.old"))
    assert trained_heads.find(model) == first
    assert load(model).head is not None
    second = store(model, target, hours=2.0)
    assert trained_heads.list_heads() == [second]
    assert [path.name for path in trained_heads.get_heads_folder().iterdir()] == [place.name]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda head: head.fc.weight.fill_(float("inf")), r"fc\.weight has values that are not finite"),
        (lambda head: head.d2t[-1].add_(-2), "names token 254 more than once"),
        (lambda head: head.d2t[0].sub_(1), "the tokenizer of tiny does not have"),
    ],
)
def test_whoever_made_a_head_it_is_checked_before_it_drafts(
    change: Callable[[DFlash], object], why: str, model: str, target: LoadedModel
) -> None:
    record = store(model, target)
    with pytest.raises(ModelError, match=why):
        trained_heads.prepare_head(damaged(target, change), target, record)


def test_files_of_a_head_are_readable_alike(model: str, target: LoadedModel) -> None:
    store(model, target)
    assert len({path.stat().st_mode for path in trained_heads.get_head_folder(model).iterdir()}) == 1


@pytest.mark.parametrize("drafter", ["trained", thorough("ngram+trained"), thorough("sibling+trained")])
def test_a_run_names_the_head_that_drafted(drafter: str, model: str, target: LoadedModel) -> None:
    record = store(model, target)
    engine = load(model, drafter)
    provenance = engine.get_provenance()
    assert (provenance["draft"], provenance["draft_sha256"]) == (f"trained for {model}", record.sha256)
    assert sum(engine.count_memory().values()) > sum(load(model, "none").count_memory().values())


def test_a_head_made_for_other_weights_is_refused(model: str, target: LoadedModel) -> None:
    store(model, target, target_sha256="2" * 64)
    with pytest.raises(ModelError, match=r"was made for other weights of it .* train it again"):
        load(model)


def test_a_head_that_changed_on_disk_is_refused(model: str, target: LoadedModel) -> None:
    store(model, target)
    file = trained_heads.get_head_folder(model) / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ModelError, match="has changed on disk"):
        load(model)
    file.unlink()
    with pytest.raises(ModelError, match=r"has no model\.safetensors"):
        load(model)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"target": 1}', "[" * 100_000])
def test_a_damaged_record_is_one_sentence_and_hides_no_other(content: str, model: str, target: LoadedModel) -> None:
    store(model, target)
    record = trained_heads.get_head_folder(model) / trained_heads.RECORD
    good = record.read_text()
    record.write_text(content)
    with pytest.raises(ModelError, match="damaged: train it again"):
        trained_heads.find(model)
    other = trained_heads.get_heads_folder() / "other"
    other.mkdir()
    (other / trained_heads.RECORD).write_text(good)
    assert [one.target for one in trained_heads.list_heads()] == [json.loads(good)["target"]]


def test_a_target_that_runs_row_by_row_is_refused(
    model: str, target: LoadedModel, loaded: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(model, target)
    row_by_row = replace(loaded(tiny_qwen2()), ref=model)
    row_by_row.model.set_attn_implementation("eager")
    from decoding import prepare

    with pytest.raises(ModelError, match="row by row"):
        prepare.load_head(row_by_row)
