"""A whole training: killed at any moment it ends with the same weights, keeps to its disk, and leaves only the head."""

from __future__ import annotations

import hashlib
import multiprocessing
import shutil
import signal
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models import trained_heads
from decoding.models.errors import ModelError
from decoding.models.trained_heads import HeadRecord
from decoding.models.weight_formats import FORMATS
from decoding.request import Request, RequestError, SamplingParams
from decoding.training import drafter
from decoding.training.drafter import TrainingStoppedError
from decoding.training.plan import WorkFolder
from tests.decoding.conftest import tiny_qwen2
from tests.decoding.training.program import SMALL, TASK, train_until, training
from tests.thorough import thorough

N_FUNCTIONS = 46  # with the planted task three shards, and fewer tokens than asked for in two


@pytest.fixture(scope="session")
def model(tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model that writes the same few letters again and again, and Python files to ask it about."""
    folder = tmp_path_factory.mktemp("training")
    network = tiny_qwen2()
    with torch.no_grad():
        network.lm_head.weight.mul_(3)  # a target that is rather certain, so that a head can learn it
    network.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "python").mkdir()
    for i in range(N_FUNCTIONS):
        function = f'def f{i}(x):\n    """Return x multiplied by the number {i}, as a float."""\n'
        (folder / "python" / f"f{i}.py").write_text(function)
    (folder / "python" / "planted.py").write_text(TASK.replace("'''", '"""').replace("ten years", "ten  years"))
    return folder


@pytest.fixture
def place(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder with a cache of its own, which this process uses too."""
    shutil.copytree(model, tmp_path / "place", ignore=shutil.ignore_patterns("cache"))
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "place" / "cache"))
    return tmp_path / "place"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Short answers, few of them in a shard, and small batches."""
    for module, name, value in SMALL:
        patch.setattr(module, name, value)


@pytest.fixture(scope="module")
def undisturbed(model: Path) -> HeadRecord:
    """The record of a training that ran to its end; the cache in the model's folder holds the head."""
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        patch.setenv("BASSLINE_CACHE_DIR", str(model / "cache"))
        return training(model).run()


def weights(place: Path) -> str:
    (file,) = (place / "cache" / "drafters").glob("*/model.safetensors")
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.thorough
def test_killed_at_any_moment_it_ends_with_the_weights_of_an_undisturbed_one(
    model: Path, place: Path, undisturbed: HeadRecord
) -> None:
    processes = multiprocessing.get_context("forkserver")  # imports once what each of them needs
    processes.set_forkserver_preload(["tests.decoding.training.program", "transformers.models.qwen2.modeling_qwen2"])

    def run(n_reports: int | None) -> int | None:
        process = processes.Process(target=train_until, args=(place, n_reports))
        process.start()
        process.join(240)
        return process.exitcode

    work = place / "cache" / "training"
    stored = []
    for n_reports in (5, 20, 20, 20, 8):  # in each of the three shards, then twice while the head is trained
        assert run(n_reports) == -signal.SIGKILL
        (checkpoint,) = [*work.glob("*/checkpoint.pt")] or [None]
        step = torch.load(checkpoint, weights_only=True)["step"] if checkpoint else 0
        stored.append((len(list(work.glob("*/shards/*.safetensors"))), step))
    assert [n_shards for n_shards, _ in stored] == [0, 1, 2, 3, 3]
    assert 0 < stored[3][1] < stored[4][1] < undisturbed.data["steps"]
    assert not list((place / "cache" / "drafters").glob("*"))
    assert run(None) == 0
    assert weights(place) == weights(model)
    assert not list(work.glob("*")), "only the head is left"


def test_a_training_leaves_a_head_that_drafts_and_a_record_of_what_it_did(
    model: Path, undisturbed: HeadRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = undisturbed
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(model / "cache"))
    assert trained_heads.find(str(model / "model")) == record
    assert trained_heads.list_heads() == [record]
    assert record.data["n_tokens"] >= 1_700
    assert record.data["n_prompts"] == N_FUNCTIONS + 1
    assert record.data["dropped_prompts"] == 1, "the planted task"
    assert record.data["weights"] == drafter._choose_fastest_weights()
    assert record.hours > 0
    assert [row["drafter"] for row in record.speeds[:4]] == ["none", "trained", "sibling", "sibling+trained"]
    steps = [one["step"] for one in record.curve]
    assert steps == sorted(steps)
    assert steps[0] == 0
    assert record.match[0] > record.curve[0]["match"][0] + 0.1, "it learned"
    engines = [
        Engine.load(EngineConfig(str(model / "model"), drafter, "fixed:3", dtype="float32"))
        for drafter in ("none", "trained")
    ]
    # As in its training: a head knows nothing of other texts.
    prompt = 'def f3(x):\n    """Return x multiplied by the number 3, as a float."""\n'
    request = Request(prompt, n=4, sampling=SamplingParams(0.8), max_new_tokens=40)
    plain, drafted = (engine.generate(request) for engine in engines)
    assert [s.text for s in plain.samples] == [s.text for s in drafted.samples]
    assert sum(s.n_accepted for s in drafted.samples) > 0
    assert engines[1].get_provenance()["draft_sha256"] == record.sha256


def train_some(place: Path, n: int) -> None:
    """Trains until some reports have come."""
    left = [n]
    with pytest.raises(TrainingStoppedError):
        training(place, lambda *_: left.append(left.pop() - 1), lambda: left[0] <= 0).run()


@pytest.mark.parametrize("n", [thorough(1), 40])
def test_stopped_it_goes_on_with_the_same_options_and_refuses_others(n: int, place: Path, small: None) -> None:
    train_some(place, n)
    with pytest.raises(RequestError, match=r"interrupted that had epochs 2: give the same options"):
        training(place, epochs=4).run()
    assert WorkFolder(str(place / "model")).read_plan() is not None


@pytest.mark.parametrize(
    ("dtype", "missing", "weights"),
    [(torch.float32, None, "int8"), (torch.float32, "no onnxruntime", "dense"), (torch.bfloat16, None, "dense")],
)
def test_8_bit_weights_write_the_text_where_a_cpu_would_compute_in_float32(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, missing: str | None, weights: str
) -> None:
    monkeypatch.setattr(drafter, "pick_dtype", lambda *_: dtype)
    monkeypatch.setattr(FORMATS["int8"], "find_obstacle", lambda _: missing)
    assert drafter._choose_fastest_weights() == weights


@pytest.mark.thorough
def test_a_training_that_goes_on_keeps_the_weights_that_its_text_was_begun_with(
    place: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafter, "_choose_fastest_weights", lambda: "dense")
    train_some(place, 20)
    assert list((place / "cache" / "training").glob("*/shards/*.safetensors")), "text was collected"
    monkeypatch.setattr(drafter, "_choose_fastest_weights", lambda: "int8")
    assert training(place).run().data["weights"] == "dense"


def test_it_refuses_to_begin_without_room_and_keeps_to_what_it_was_given(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RequestError, match=r"may take 1152921504\.61 GB, and .* GB are free"):
        training(place, max_bytes=2**60).run()
    with pytest.raises(RequestError, match=r"a part of the training data may take \d+ MB: give a larger --max-disk"):
        training(place, max_bytes=2**20).run()
    make_small(monkeypatch)
    bound = int(2.7 * 2**20)
    parts: list[str] = []
    with pytest.raises(TrainingStoppedError):
        training(
            place, lambda *given: parts.append(given[-1]), lambda: any(part.startswith("steps") for part in parts),
            max_bytes=bound, tokens=10**9,
        ).run()  # fmt: skip
    shards = list((place / "cache" / "training").glob("*/shards/*"))
    assert len(shards) == 2, "a third one might not have fitted"
    assert sum(shard.stat().st_size for shard in shards) <= bound


def test_a_damaged_plan_is_refused_with_the_remedy(place: Path) -> None:
    work = WorkFolder(str(place / "model"))
    work.path.mkdir(parents=True)
    (work.path / "plan.json").write_text("{")
    with pytest.raises(RequestError, match="--restart"):
        training(place).run()


def test_a_target_without_a_head_says_how_to_get_one(place: Path) -> None:
    with pytest.raises(ModelError, match="bassline drafter train --target"):
        Engine.load(EngineConfig(str(place / "model"), "trained"))
