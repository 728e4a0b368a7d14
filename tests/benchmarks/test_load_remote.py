"""`bassline bench load` with an `openai:` target: requests go to its server, several at once."""

from __future__ import annotations

import itertools
import json
import re
import threading

import pytest

from benchmarks import load
from tests.app.stub_server import DONE, choice, event, serve_stub, tokens

ANSWER = "    return 1\n"
WORDS = ("--rates", "4,8", "--duration", "1", "--budget", "0.5", "--n", "2")


@pytest.fixture(autouse=True)
def _own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("BASSLINE_DATA_DIR", str(tmp_path / "data"))


def answer(reply, body):
    reply.start().write(*(event(choice(ANSWER, "stop", i, tokens(ANSWER))) for i in range(body.get("n", 1))), DONE)


def test_a_remote_server_is_loaded_directly(tmp_path):
    file = tmp_path / "load.json"
    with serve_stub(answer) as stub:
        target = f"openai:m@{stub.url}"
        assert load.main(["--target", target, *WORDS, "--json", str(file)]) == 0
        sent = [body for body in stub.bodies if body["max_tokens"] == 256]
    report = json.loads(file.read_text())
    idle, *loaded = report["points"]
    assert [(p["rate"], p["requests"], p["answered"], p["failed"]) for p in loaded] == [
        (4, 4, 4, 0), (8, 8, 8, 0),
    ]  # fmt: skip
    assert len(sent) == 4 + 8 + idle["requests"] + 1  # both rates, idle, and warming up
    assert {body["n"] for body in sent} == {2}
    assert report["device"] == "remote"


def test_requests_are_sent_together_and_one_that_fails_is_counted(tmp_path, capsys):
    together, asked = threading.Barrier(3), itertools.count()

    def answer_together(reply, body):
        if body["max_tokens"] == 256 and "n" not in body and (number := next(asked)) > 1:
            together.wait(30)
            if number == 3:
                reply.refuse("out of memory", 500)
                return
        answer(reply, body)

    file = tmp_path / "load.json"
    words = ("--rates", "3", "--duration", "1", "--budget", "20", "--n", "1")
    with serve_stub(answer_together) as stub:
        assert load.main(["--target", f"openai:m@{stub.url}", *words, "--json", str(file)]) == 0
    _, point = json.loads(file.read_text())["points"]
    assert (point["requests"], point["answered"], point["failed"]) == (3, 2, 1)
    assert "not answered: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("--target", "openai:m@http://127.0.0.1:9/v1"), 1, "cannot be reached: .*; start the server, or correct"),
        (("--target", "openai:m"), 2, "use openai:MODEL@http://HOST/v1"),
        (("--target", "openai:m@http://h/v1", "--url", "http://h"), 2, "--url is for a service of ours: leave it out"),
        (("--target", "openai:m@http://h/v1", "--drafter", "none"), 2, "--drafter is for a service of ours: leave it"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(words, status, sentence, capsys):
    with pytest.raises(SystemExit) as stopped:
        load.main([*words, "--rates", "1", "--duration", "1"])
    assert stopped.value.code == status
    assert re.search(sentence, capsys.readouterr().err)
