"""`bassline bench load` with an `openai:` target: requests go to its server, several at once, and its queue is read."""

from __future__ import annotations

import itertools
import json
import re
import threading

import pytest

from benchmarks import load
from tests.app.stub_server import DONE, choice, event, serve_stub, tokens

ANSWER = "    return 1\n"
WORDS = ("--rates", "4,8", "--duration", "1", "--budget", "0.5", "--n", "2", "--name", "theirs")


@pytest.fixture(autouse=True)
def _own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("BASSLINE_DATA_DIR", str(tmp_path / "data"))


def answer(reply, body):
    reply.start().write(*(event(choice(ANSWER, "stop", i, tokens(ANSWER))) for i in range(body.get("n", 1))), DONE)


def make_metrics(names: tuple[str, str, str]):
    """A page that counts up: half a second in the queue for each request that has left it, three that wait."""
    count = itertools.count(1)

    def write() -> str:
        n = next(count)
        seconds, left, waiting = names
        return f'{seconds}{{engine="0"}} {n / 2}\n{left} {n}\n{waiting} 3\n'

    return write


QUEUES = {
    "vLLM": (
        "vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count", "vllm:num_requests_waiting",
    ),
    "SGLang": ("sglang:queue_time_seconds_sum", "sglang:queue_time_seconds_count", "sglang:num_queue_reqs"),
    "llama.cpp": ("none_s", "none_n", "llamacpp:requests_deferred"),
    "none": ("none_s", "none_n", "none_waiting"),
}  # fmt: skip


@pytest.mark.parametrize("server", QUEUES)
def test_a_remote_server_is_loaded_directly_and_its_queue_is_told(server, tmp_path):
    file = tmp_path / "load.json"
    with serve_stub(answer, pages={"/metrics": make_metrics(QUEUES[server])}) as stub:
        target = f"openai:m@{stub.url}"
        assert load.main(["--target", target, *WORDS, "--json", str(file)]) == 0
        sent = [body for body in stub.bodies if body["max_tokens"] == 256]
    report = json.loads(file.read_text())
    (found,) = report["load_tests"]
    assert [(p["rate"], p["requests"], p["answered"], p["failed"]) for p in found["points"]] == [
        (4, 4, 4, 0), (8, 8, 8, 0),
    ]  # fmt: skip
    assert len(sent) == 4 + 8 + found["settings"]["prompts"] + 1  # both rates, idle, and warming up
    assert {body["n"] for body in sent} == {2}
    assert found["settings"]["device"] == "remote"
    queues = {(p["server_queue_s"], p["server_waiting_max"]) for p in found["points"]}
    expected = {"vLLM": (0.5, 3), "SGLang": (0.5, 3), "llama.cpp": (None, 3), "none": (None, None)}
    assert queues == {expected[server]}


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
    (point,) = json.loads(file.read_text())["load_tests"][0]["points"]
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
