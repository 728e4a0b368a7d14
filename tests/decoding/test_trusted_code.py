"""A model's own code runs only if the operator named its very commit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models import fetch, loading, sources
from decoding.models.errors import ModelError
from decoding.models.trusted_code import VARIABLE
from decoding.request import Request
from tests.decoding.conftest import tiny_qwen2

COMMIT = "c" * 40
REF = f"hf:owner/own@{COMMIT}"
CODE = """
from pathlib import Path
from transformers import Qwen2Config, Qwen2ForCausalLM
Path({mark!r}).touch()

class OwnConfig(Qwen2Config):
    model_type = "own"

class OwnForCausalLM(Qwen2ForCausalLM):
    config_class = OwnConfig
"""


@pytest.fixture
def ran(tmp_path: Path, tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that the code of the hub's owner/own makes when it runs."""
    offer, mark = tmp_path / "offer", tmp_path / "ran"
    tiny_qwen2().save_pretrained(offer)
    tokenizer.save_pretrained(offer)
    (offer / "own.py").write_text(CODE.format(mark=str(mark)))
    change(offer, {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnForCausalLM"})
    names = tuple((path.name, path.stat().st_size) for path in offer.iterdir())
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(
        sources, "list_hub_files", lambda repo, revision, _: sources.HubFiles(revision or "d" * 40, names)
    )
    monkeypatch.setattr(sources, "download_repository", lambda _r, _o, _n, folder, _p: shutil.copytree(offer, folder))
    return mark


def change(folder: Path, auto_map: dict[str, str]) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "architectures": ["OwnForCausalLM"], "auto_map": auto_map}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("named", ["", f"owner/other@{COMMIT}", f"owner/own@{'d' * 40}"])
def test_it_does_not_run_unasked(ran: Path, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, named)
    with pytest.raises(ModelError, match="runs only if BASSLINE_TRUSTED_CODE names its commit"):
        loading.load(REF)
    assert not ran.exists()


def test_a_branch_that_may_move_is_not_trusted(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "owner/own@main")
    with pytest.raises(ModelError, match="give owner/name@commit, with all 40 digits"):
        loading.load("hf:owner/own@main")
    monkeypatch.setenv(VARIABLE, f"owner/own@{COMMIT}")
    with pytest.raises(ModelError):
        loading.load("hf:owner/own")
    assert not ran.exists()


def test_a_folder_is_not_trusted_for_its_name(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"owner/own@{COMMIT}")
    with pytest.raises(ModelError):
        loading.load(str(fetch.ensure(REF).folder))
    assert not ran.exists()


def test_a_named_commit_decodes(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"owner/own@{COMMIT} owner/other@{'e' * 40}")
    engine = Engine.load(EngineConfig(REF, dtype="float32", device="cpu"))
    assert type(engine.target.model).__name__ == "OwnForCausalLM"
    assert ran.exists()
    completion = engine.generate(Request(prompt="def f():", n=2, max_new_tokens=4))
    assert [sample.n_tokens for sample in completion.samples] == [4, 4]


def test_code_of_another_repository_is_not_covered(ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"owner/own@{COMMIT}")
    change(tmp_path / "offer", {"AutoConfig": "else/where--own.OwnConfig"})
    with pytest.raises(ModelError, match="loads code from another repository"):
        loading.load(REF)
    assert not ran.exists()


def test_code_that_was_changed_in_the_cache_does_not_run(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"owner/own@{COMMIT}")
    code = fetch.ensure(REF).folder / "own.py"
    code.write_text(code.read_text().replace("touch", "chmod"))  # as many bytes
    with pytest.raises(
        ModelError, match=r"differs from what was pulled, or was not recorded \(own.py\): delete .* and run"
    ):
        loading.load(REF)
    assert not ran.exists()
    with pytest.raises(ModelError, match=r"own\.py"):
        fetch.verify(REF)


def test_code_beside_that_of_the_repository_does_not_run(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"owner/own@{COMMIT}")
    folder = fetch.ensure(REF).folder
    (folder / "more.py").write_text("")
    with pytest.raises(ModelError, match=r"more\.py"):
        loading.load(REF)
    with pytest.raises(ModelError, match=r"more\.py"):
        fetch.verify(REF)
    (folder / "more.py").unlink()
    (folder / "deep").mkdir()
    (folder / "deep" / "own.py").write_bytes((folder / "own.py").read_bytes())
    with pytest.raises(ModelError, match=r"deep/own\.py"):
        loading.load(REF)
    assert not ran.exists()


def test_code_pulled_before_its_hash_was_recorded_does_not_run_until_pulled_again(
    ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"owner/own@{COMMIT}")
    folder = fetch.ensure(REF).folder
    record = json.loads((folder / "bassline.json").read_text())
    del record["files"]["own.py"]
    (folder / "bassline.json").write_text(json.dumps(record))
    with pytest.raises(ModelError, match=r"own\.py"):
        loading.load(REF)
    assert not ran.exists()
    shutil.rmtree(folder)
    assert type(loading.load(REF, "float32", "cpu").model).__name__ == "OwnForCausalLM"
