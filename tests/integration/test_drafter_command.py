"""`bassline drafter` as a user meets it: a tiny model, interrupted in a process of its own and gone on with."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from app.cli.main import cli
from tests.decoding.model_files import put_trainable_model
from tests.decoding.training.program import SMALL
from tests.integration.waiting import wait_for
from tests.thorough import thorough

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return put_trainable_model(tmp_path_factory.mktemp("drafter"))


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache and data of the test's own, and one thread: matrices this small only wait for each other on several."""
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("BASSLINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def bassline(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def process(*words: object) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", "app.cli", *map(str, words)]
    return subprocess.Popen(arguments, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.thorough
def test_train_stop_go_on_list_check_and_use(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = ("drafter", "train", "--target", model, "--tokens", 1_000, "--epochs", 1)
    begun = process(*train)
    wait_for(lambda: list((tmp_path / "cache" / "training").glob("*/plan.json")), 120)
    begun.send_signal(signal.SIGTERM)
    _, said = begun.communicate(timeout=600)
    assert begun.returncode == 1
    assert "uses up to 8 GB in" in said
    assert "the same command resumes" in said

    for module, name, value in SMALL:
        monkeypatch.setattr(module, name, value)
    other = bassline(*train[:-1], 2)
    assert other.exit_code == 2
    assert "interrupted that had epochs 1: give the same options" in other.stderr

    done = bassline(*train, "--json", "-")
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["target"] == str(model)
    assert record["data"]["n_tokens"] >= 1_000
    assert len(record["match"]) == 5
    assert not list((tmp_path / "cache" / "training").glob("*"))

    listed = json.loads(bassline("drafter", "list", "--json", "-").stdout)
    assert [one["sha256"] for one in listed] == [record["sha256"]]
    checked = bassline("drafter", "check", "--target", model)
    assert checked.exit_code == 0, checked.stderr
    assert "correct at positions 1 to 5" in checked.stdout

    (tmp_path / "prompt.py").write_text("def f(x):\n")
    complete = ("complete", "--target", model, "--drafter", "sibling+trained", "--n", 2, "--max-tokens", 16)
    completed = process(*complete, tmp_path / "prompt.py")
    _, said = completed.communicate(timeout=600)
    assert completed.returncode == 0, said

    (folder,) = (tmp_path / "cache" / "drafters").iterdir()
    published = tmp_path / "published"
    shutil.copytree(folder, published)
    shutil.rmtree(folder)
    imported = bassline("drafter", "import", published, "--target", model, "--json", "-")
    assert imported.exit_code == 0, imported.stderr
    assert json.loads(imported.stdout)["source"] == str(published)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        thorough(("train", "--target", "nothing"), 2, "model 'nothing' is not known"),
        (("train", "--target", "MODEL", "--tokens", "5000"), 2, "--tokens and --epochs belong together"),
        thorough(("train", "--target", "MODEL", "--tokens", "5000", "--epochs", "1", "--hours", "1"), 2, "choose one"),
        thorough(("train", "--target", "MODEL", "--hours", "0"), 2, "0.01<=x<=1000"),
        thorough(("train", "--target", "MODEL", "--max-disk", "9000000"), 2, "give a smaller --max-disk"),
        (("check", "--target", "MODEL"), 1, "has no trained drafter: make one with"),
        thorough(("import", "nowhere", "--target", "MODEL"), 1, "nowhere has no config.json"),
        thorough(("import", "hf:../x", "--target", "MODEL"), 1, "is not of the form hf:owner/name"),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], code: int, sentence: str, model: Path) -> None:
    result = bassline("drafter", *(str(model) if word == "MODEL" else word for word in words))
    assert (result.exit_code, result.stdout) == (code, "")
    assert sentence in result.stderr
    assert isinstance(result.exception, SystemExit)


def test_a_damaged_head_is_one_sentence(model: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": "32", "num_attention_heads": 4}')
    result = bassline("drafter", "import", tmp_path, "--target", model)
    assert (result.exit_code, result.stdout) == (1, "")
    assert 'hidden_size in its config.json is "32" and must be a whole number' in result.stderr
    assert isinstance(result.exception, SystemExit)


def test_a_run_with_a_drafter_that_is_not_there_is_refused_before_it_is_made(model: Path) -> None:
    result = bassline("eval", "--target", model, "--drafter", "trained", "--limit", 1)
    assert result.exit_code == 2
    assert "has no trained drafter here: make one with `bassline drafter train --target" in result.stderr
    assert json.loads(bassline("runs", "list", "--json", "-").stdout) == []
