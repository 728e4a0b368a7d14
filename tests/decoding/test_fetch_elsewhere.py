"""Models that other processes fetch: GGUF files are converted once, repositories come from a hub on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from decoding.models import fetch
from decoding.models.errors import ModelError
from tests.decoding.model_files import put_gguf, put_model, sha256
from tests.thorough import thorough

ENSURE = """
import sys
from decoding.models import fetch
print(fetch.ensure(sys.argv[1], on_progress=lambda news: print(news.stage, news, flush=True)).folder)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.thorough
def test_two_processes_at_once_convert_a_gguf_file_once(cache: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.gguf"
    put_gguf(mine)
    content = mine.read_bytes()
    run = partial(subprocess.Popen, [sys.executable, "-c", ENSURE, str(mine)], stdout=subprocess.PIPE, text=True)
    outputs = [process.communicate(timeout=600)[0] for process in (run(), run())]
    assert len({output.splitlines()[-1] for output in outputs}) == 1
    assert sorted("convert " in output for output in outputs) == [False, True]

    assert mine.read_bytes() == content  # the user's file is left alone
    info = fetch.find_cached(str(mine))
    assert info is not None
    assert (info.sha256, info.dtype) == (sha256(content), "bfloat16")
    assert set(info.versions) == {"bassline", "transformers", "torch", "gguf"}
    config = json.loads((info.folder / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["eos_token_id"] == 2
    tokenizer = json.loads((info.folder / "tokenizer.json").read_text())
    special = {token["content"] for token in tokenizer["added_tokens"] if token["special"]}
    assert special == {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
    assert tokenizer["pre_tokenizer"]["pretokenizers"][0] == {"type": "Digits", "individual_digits": True}

    put_gguf(mine, pre="qwen2")
    os.utime(mine, ns=(1, 1))
    assert fetch.find_cached(str(mine)) is None  # another file under the same name is another model


@pytest.mark.parametrize("content", [b"not a GGUF file", thorough(b"GGUF, and nothing of it")])
def test_a_file_that_is_no_gguf_is_refused_in_a_sentence(cache: Path, tmp_path: Path, content: bytes) -> None:
    mine = tmp_path / "broken.gguf"
    mine.write_bytes(content)
    with pytest.raises(ModelError, match=r"broken.gguf cannot be converted \(.+\)"):
        fetch.ensure(str(mine))
    assert not list((cache / "models").glob("*"))


# The hub, played by a server on this machine


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as its client asks for; `files` belong to owner/tiny."""

    files: dict[str, bytes]

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        name = path.rpartition("/")[2]
        if path.startswith("/api/models/owner/tiny/tree/"):
            body = json.dumps(
                [
                    {"type": "file", "path": name, "size": len(content), "oid": sha256(content)[:40]}
                    for name, content in self.files.items()
                ]
            ).encode()
        elif path.startswith("/api/models/owner/tiny"):
            siblings = [{"rfilename": name, "size": len(content)} for name, content in self.files.items()]
            body = json.dumps({"id": "owner/tiny", "sha": "c" * 40, "siblings": siblings}).encode()
        elif path.startswith("/owner/tiny/resolve/") and name in self.files:
            body = self.files[name]
        else:
            self.send_response(200 if path == "/" else 404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("ETag", f'"{sha256(body)}"')
        self.send_header("X-Repo-Commit", "c" * 40)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """The files that owner/tiny offers, on a server that child processes take for the hub."""
    put_model(tmp_path / "offer")
    files = {path.name: path.read_bytes() for path in (tmp_path / "offer").iterdir()}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("TinyHub", (Hub,), {"files": files}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield files
    server.shutdown()
    server.server_close()


def ensure_elsewhere(ref: str) -> str:
    """Output of a fresh process, which reads the hub's address from the environment."""
    done = subprocess.run([sys.executable, "-c", ENSURE, ref], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_a_repository_comes_from_the_hub_with_its_commit(hub: dict[str, bytes], cache: Path) -> None:
    hub["pytorch_model.bin"] = b"\x80pickle"
    output = ensure_elsewhere("hf:owner/tiny")
    info = fetch.find_cached("hf:owner/tiny")
    assert info is not None, output
    assert info.source == f"Hugging Face hub, owner/tiny@{'c' * 40}"
    assert info.sha256 == sha256(hub["model.safetensors"])
    assert sorted(path.name for path in info.folder.iterdir()) == ["bassline.json", "config.json", "model.safetensors"]


def test_a_repository_without_safetensors_is_refused(hub: dict[str, bytes], cache: Path) -> None:
    del hub["model.safetensors"]
    assert "owner/tiny has no config.json with safetensors weights" in ensure_elsewhere("hf:owner/tiny")


def test_a_repository_that_does_not_exist_is_named(hub: dict[str, bytes], cache: Path) -> None:
    assert "owner/none does not exist on the hub or is private" in ensure_elsewhere("hf:owner/none")
