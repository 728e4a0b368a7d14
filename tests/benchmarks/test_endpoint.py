"""Another server as an arm: asked for n samples in its own way, and named with the reason if it does not answer."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks import decode
from benchmarks._peers import Endpoint, find_peers
from benchmarks._report import Report
from tests.http_servers import serve


@pytest.fixture(params=["makes n choices", "makes n choices and counts each by itself", "makes one choice"])
def server(request):
    """A server that writes five tokens for each choice; its address, whether it obeys n, and the requests."""
    asked: list[dict] = []
    obeys_n, counts_each = "n choices" in request.param, "each" in request.param

    def usage(n):
        return {"prompt_tokens": 3, "completion_tokens": 5 * n, "total_tokens": 3 + 5 * n}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            choices = range(body.get("n", 1) if obeys_n else 1)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for index in choices:
                choice = {"index": index, "text": "words", "finish_reason": "stop", "logprobs": None}
                self.say(choices=[choice], **({"usage": usage(1)} if counts_each else {}))
            if not counts_each:
                self.say(choices=[], usage=usage(len(choices)))
            self.wfile.write(b"data: [DONE]\n\n")

        def say(self, **content):
            chunk = {"id": "c", "created": 0, "model": "m", "object": "text_completion", **content}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

        def log_message(self, *_):
            pass

    with serve(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as http:
        yield f"http://127.0.0.1:{http.server_port}/v1", obeys_n, asked


def test_all_tokens_of_n_samples_are_counted_whatever_way_the_server_makes_them(server):
    url, obeys_n, asked = server
    endpoint = Endpoint("m", url)
    asked.clear()
    speed = endpoint.run("def f():\n", 8, 0.2, 64)
    assert speed.tokens == 40
    assert 0 < speed.first_s <= speed.seconds
    assert sorted((body.get("n", 1), body["seed"]) for body in asked) == (
        [(8, 0)] if obeys_n else [(1, i) for i in range(8)]
    )
    assert {(body["temperature"], body["max_tokens"]) for body in asked} == {(0.2, 64)}


def test_a_server_that_does_not_answer_is_named_with_the_reason():
    found, not_run = find_peers([("away", "m", "http://127.0.0.1:9/v1")], None)
    assert found == {}
    assert not_run["@away"].startswith("http://127.0.0.1:9/v1 cannot be reached")


def test_openvino_without_its_package_is_named_with_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino_genai", None)
    found, not_run = find_peers([], "exported")
    assert found == {}
    assert "openvino_genai" in not_run["@openvino"]


def test_all_options_of_a_measurement_can_be_written_as_json(tmp_path):
    options = decode._parse_options(["--openvino", "exported", "--endpoint", "a=m@http://x/v1"])
    Report("decode", "a machine", vars(options)).write(str(tmp_path / "report.json"))
    assert json.loads((tmp_path / "report.json").read_text())["settings"]["openvino"] == "exported"


@pytest.mark.parametrize("wrong", ["llamacpp", "a=http://x", "=m@http://x/v1", "a=m@ftp://x/v1"])
def test_an_endpoint_that_is_badly_written_is_refused(wrong, capsys):
    with pytest.raises(SystemExit) as stopped:
        decode.main(["--endpoint", wrong])
    assert stopped.value.code == 2
    assert "write NAME=MODEL@http://HOST:PORT/v1" in capsys.readouterr().err
