"""Bad tasks in other languages: the command line and the HTTP API answer with one sentence and store nothing."""

import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from app.datasets import service
from app.datasets.models import Dataset
from app.runs.models import Run
from app.site.factory import create_app
from evaluation.languages import registry

ROW = {
    "task_id": "add/0",
    "language": "cpp",
    "prompt": "long long add(long long a, long long b) {\n",
    "signature": {
        "name": "add",
        "parameters": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}],
        "returns": "int",
    },
    "cases": [{"args": ["1", "2"], "result": "3"}],
}
FILES = {
    "unknown type": (
        {**ROW, "signature": {**ROW["signature"], "returns": "list[object]"}},
        "bad.jsonl, line 1, field signature.returns: 'object' in 'list[object]' is not a type",
    ),
    "case of another type": (
        {**ROW, "cases": [{"args": ["1", "2"], "result": 3.5}]},
        "bad.jsonl, line 1, field cases[0].result: 3.5 does not fit int",
    ),
    "too few arguments": (
        {**ROW, "cases": [{"args": ["1"], "result": "3"}]},
        "bad.jsonl, line 1, field cases[0].args: add takes 2 arguments, the case has 1",
    ),
    "unknown language of MultiPL-E": (
        {"name": "add", "language": "lua", "prompt": "x", "tests": "y", "stop_tokens": []},
        "bad.jsonl, line 1, field language: 'lua' is not a language that can be judged",
    ),
}


@pytest.fixture
def client(ctx):
    return create_app(ctx).test_client()


def stored(ctx, model):
    with ctx.database.read() as session:
        return session.scalar(select(func.count()).select_from(model))


def sentence_of(answer):
    return " ".join(answer.json["detail"].split())


@pytest.mark.parametrize(("row", "sentence"), FILES.values(), ids=FILES)
def test_a_bad_file_is_refused_with_line_and_field(ctx, bassline, client, tmp_path, row, sentence):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(row))
    refused = bassline("datasets", "import", str(path))
    assert refused.exit_code == 2
    assert refused.stderr.count("\n") == 1
    assert sentence in refused.stderr
    upload = {"file": (io.BytesIO(path.read_bytes()), "bad.jsonl")}
    answer = client.post("/api/v1/datasets", data=upload)
    assert answer.status_code == 422
    assert sentence in sentence_of(answer)
    assert stored(ctx, Dataset) == 0


CRASH = "#!/bin/sh\nkill -SEGV $$\n"
PRECOMPILES_NOT = '#!/bin/sh\ncase "$*" in *dumpfullversion*) echo 12.2.0;; *) kill -SEGV $$;; esac\n'
COMPILERS = {
    "missing": (None, "C++ cannot be judged on this machine: version 10.0 or later is needed: there is none; run"),
    "crashes": (CRASH, "/bin/g++ ended with signal SIGSEGV; run `apt-get install g++`"),
    "crashes once it compiles": (PRECOMPILES_NOT, "/bin/g++ ended with signal SIGSEGV; run `apt-get install g++`"),
}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder for the sandbox's user, who asks a compiler for its version. Another pytest closes the parent of
    `tmp_path` for all others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize(("script", "sentence"), COMPILERS.values(), ids=COMPILERS)
def test_without_a_compiler_that_works_nothing_is_stored(
    ctx, bassline, client, additions, open_folder, monkeypatch, script, sentence
):
    service.import_bytes(ctx, json.dumps(ROW).encode(), "cpp", "cpp.jsonl")
    tools = open_folder / "bin"
    tools.mkdir()
    if script is not None:
        (tools / "g++").write_text(script)
        (tools / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    toolchain = registry.load_language("cpp").toolchain
    toolchain.find.cache_clear()
    refusals = [
        bassline("eval", "--target", "smollm2-135m", "--dataset", "cpp"),
        bassline("datasets", "translate", additions, "--to", "cpp", "--name", "new"),
    ]
    assert [refused.exit_code for refused in refusals] == [1, 1]
    assert all(refused.stderr.count("\n") == 1 and sentence in refused.stderr for refused in refusals)
    answer = client.post("/api/v1/runs", json={"target": "smollm2-135m", "dataset": "cpp", "n": 1, "budget_s": 5})
    assert answer.status_code == 503
    assert sentence in sentence_of(answer)
    assert (stored(ctx, Run), stored(ctx, Dataset)) == (0, 2)
    toolchain.find.cache_clear()
