"""`bassline bench load`: an open loop, honest about refusals, and one whole run."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks import _load_client, load
from benchmarks._load_client import Client
from benchmarks._load_figures import MeasuredService, build_sentences, compute_figures
from benchmarks._load_grading import Judge
from benchmarks._load_service import ServiceError, serve_own
from evaluation.datasets import Task
from evaluation.load_metrics import LoadTestRequest, build_point
from evaluation.metrics import SampleOutcome
from evaluation.sandbox import Sandbox, SandboxUnavailableError
from tests.decoding.conftest import byte_tokenizer, tiny_qwen2
from tests.http_servers import serve

TASKS = [
    Task(f"add/{i}", f'def add(a, b):\n    """Sum {i}."""\n', "add", "def check(c):\n    assert c(1, 2) == 3\n", body)
    for i, body in enumerate(["    return a + b\n"] * 3 + ["    return 0\n"])
]


@given(st.floats(0.01, 50), st.floats(0.5, 100), st.integers(0, 2**40))
def test_arrivals_are_as_many_as_the_rate_says_in_order_within_the_window_and_the_same_for_a_seed(rate, duration, seed):
    found = _load_client.draw_arrivals(rate, duration, seed)
    assert len(found) == max(1, round(rate * duration))
    assert found == sorted(found)
    assert 0 <= found[0] <= found[-1] <= duration
    assert found == _load_client.draw_arrivals(rate, duration, seed)


def test_gaps_between_arrivals_are_those_of_a_poisson_process():
    gaps = np.diff(_load_client.draw_arrivals(2.0, 5_000.0, seed=1))
    assert stats.kstest(gaps, stats.expon(scale=0.5).cdf).pvalue > 0.01


@given(st.lists(st.floats(0.05, 5), min_size=1, max_size=3), st.floats(1, 60), st.floats(0.5, 20), st.integers(0, 99))
def test_every_rate_asks_for_the_prompts_of_the_idle_service_in_turn_each_time_with_another_seed(
    rates, duration, budget, seed
):
    count = _load_client.count_prompts(rates, duration, budget)
    prompts = _load_client.shuffle_tasks(TASKS, seed)[:count]
    idle = {request.task.task_id for request in _load_client.plan_idle_requests(prompts, seed)}
    for rate in rates:
        window = _load_client.plan_window(rate, duration, prompts, seed)
        assert {request.task.task_id for request in window} <= idle
        assert len({request.seed for request in window}) == len({request.key for request in window}) == len(window)
        asked_for = [sum(r.task is prompt for r in window) for prompt in prompts]
        assert max(asked_for) - min(asked_for) <= 1
    assert sorted(task.task_id for task in _load_client.shuffle_tasks(TASKS, seed)) == [task.task_id for task in TASKS]


@pytest.fixture
def service():
    """A server whose `answer(body)` gives (status, headers, document); its address, and the bodies it got."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.asked.append((body, self.path, self.headers.get("Authorization")))
            status, headers, document = server.answer(body)
            content = json.dumps(document).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked = []
    server.url = f"http://127.0.0.1:{server.server_port}"
    with serve(server):
        yield server


def completion(*samples, state: str = "finished") -> dict:
    """The document of a completion with samples (raw, finish_reason, finished_s)."""
    rows = [
        {"index": i, "raw": raw, "finish_reason": why, "finished_s": at, "mean_logprob": -0.1, "n_tokens": 5}
        for i, (raw, why, at) in enumerate(samples)
    ]
    run = {"state": state, "error": None, "prompt_mode_used": "completion", "budget_s": 5.0}
    run["provenance"] = {"device": "a machine"}
    return {"run": run, "samples": rows}


def client(service, **body) -> Client:
    return Client(service.url, "secret", {"target": "m", "n": 2, **body}, budget_s=5.0)


def requests(*due: float) -> list[_load_client.PlannedRequest]:
    return [_load_client.PlannedRequest(f"1/{i}", at, TASKS[i % 3], seed=i) for i, at in enumerate(due)]


def test_a_request_is_sent_when_it_is_due_though_no_earlier_one_was_answered(service):
    together = threading.Barrier(3)  # none is answered before all are there

    def answer(body):
        together.wait(30)
        return 200, {}, completion()

    service.answer = answer
    replies, elapsed = client(service).send_when_due(requests(0.0, 0.05, 0.3), lambda *_: None)
    assert [reply.fate for reply in replies] == ["answered"] * 3
    assert [reply.planned.key for reply in replies] == ["1/0", "1/1", "1/2"]
    assert all(reply.late_s >= 0 for reply in replies)
    assert replies[0].answered_s >= 0.3  # from when it was due, so until the third one came
    assert elapsed >= 0.3
    body, path, authorization = min(service.asked, key=lambda asked: asked[0]["seed"])  # they may come in any order
    assert (path, authorization) == ("/api/v1/complete", "Bearer secret")
    assert body == {"target": "m", "n": 2, "prompt": TASKS[0].prompt, "entry_point": "add", "seed": 0}


def test_a_refused_request_is_not_sent_again_and_its_hint_is_noted(service):
    answers = {
        0: (429, {"Retry-After": "7"}, {"detail": "the queue is full"}),
        1: (503, {"Retry-After": "2"}, {"detail": "busy"}),
        2: (500, {}, {"detail": "broken"}),
    }
    service.answer = lambda body: answers[body["seed"]]
    replies, _ = client(service).send_when_due(requests(0, 0, 0), lambda *_: None)
    assert [(r.fate, r.retry_after_s, r.fault) for r in replies] == [
        ("refused", 7.0, "the queue is full"),
        ("refused", 2.0, "busy"),
        ("failed", None, "broken"),
    ]
    assert len(service.asked) == 3


def test_a_service_that_does_not_answer_is_a_failure(service, monkeypatch):
    monkeypatch.setattr(_load_client, "PATIENCE_S", 0.2)
    left = threading.Event()
    service.answer = lambda body: (left.wait(30), (200, {}, completion()))[1]
    replies, _ = Client(service.url, "", {}, budget_s=0.1).send_when_due(requests(0), lambda *_: None)
    left.set()
    assert (replies[0].fate, replies[0].fault) == ("failed", "ReadTimeout")
    nobody, _ = Client("http://127.0.0.1:9", "", {}, budget_s=1).send_in_turn(requests(0), lambda *_: None)
    assert nobody[0].fate == "failed"
    assert nobody[0].fault.startswith("ConnectError")


@pytest.fixture
def judge():
    try:
        Sandbox.detect()
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    judge = Judge()
    yield judge
    judge.close()


def test_answers_are_judged_in_the_sandbox_and_their_times_count_from_when_they_were_due(service, judge):
    right, wrong = "    return a + b\n", "    return a - b\n"
    documents = [
        completion((wrong, "stop", 0.5), (right, "stop", 1.5), (right, "deadline", None)),
        completion(state="failed"),
        completion(),
    ]
    service.answer = lambda body: (200, {}, documents[body["seed"]])
    replies, _ = client(service).send_when_due(requests(0, 0, 0), lambda *_: None)
    replies[0].late_s, replies[0].answered_s = 0.25, 5.5
    answered, failed, empty = judge.judge_replies(replies)
    assert [(s.finished_s, s.passed) for s in answered.samples] == [(0.75, False), (1.75, True), (None, False)]
    assert answered.answer_s == 5.5
    assert answered.unclocked_s == pytest.approx(0.25)
    assert (failed.fate, failed.samples) == ("failed", ())
    assert (empty.fate, empty.samples, empty.unclocked_s) == ("answered", (), None)


def test_tasks_whose_own_solution_fails_are_left_out(judge):
    assert judge.select_valid_tasks(TASKS[::-1], 2) == TASKS[2:0:-1]
    assert judge.select_valid_tasks(TASKS, 10) == TASKS[:3]


def service_at(right: dict[float | None, int], requests: int = 20) -> MeasuredService:
    """A service with so many right answers of `requests` at each rate."""
    measured = MeasuredService()
    for rate, count in right.items():
        asked = [
            LoadTestRequest(
                f"{rate}/{i}",
                "answered",
                (SampleOutcome(f"{rate}/{i}", 0, 1.0, -0.1, i < count, 10),),
                1.5,
                prompt=f"prompt {i}",
            )
            for i in range(requests)
        ]
        measured.points[rate] = build_point(asked, rate, 5.0, 20.0, 20.0)
    return measured


def test_the_capacity_is_the_highest_rate_that_keeps_its_quality_in_figures_and_words():
    measured = service_at({None: 16, 0.2: 15, 1.0: 16, 2.0: 3})
    found = compute_figures(measured)
    assert (found["capacity.service"], found["capacity.service.high"]) == (1.0, 1.0)
    assert found["service.r2.pass_first"] == 0.15
    assert "Best estimate: it carries 1 request per second" in " ".join(build_sentences(measured))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--rates 0.5,x", "--rates: '0.5,x': give different rates"),
        ("--rates 1,1", "--rates: '1,1': give different"),
        ("--budget 0", "--budget: '0': give seconds above 0, at most 600"),
        ("--n 0", "--n: '0': give a whole number from 1"),
        ("--url gpu7", "--url: 'gpu7': give the address of the service"),
        ("--token t", "--token is for a running service: give its address with --url"),
        ("--json /nowhere/x", "--json: /nowhere/x cannot be written"),
    ],
)
def test_a_wrong_option_is_refused_with_a_sentence_that_names_it(words, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        load.main(["--target", "m", *words.split()])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def own_data(tmp_path, monkeypatch):
    """The service's data folder of this test."""
    monkeypatch.setenv("BASSLINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("BASSLINE_DATABASE_URL", raising=False)
    return tmp_path / "data"


def test_a_running_service_is_asked_and_nothing_of_this_one_is_touched(service, judge, own_data, tmp_path):
    service.answer = lambda body: (200, {}, completion(("    return 0\n", "stop", 0.1)))
    file = tmp_path / "load.json"
    words = ["--target", "m", "--rates", "10,5", "--duration", "1", "--budget", "0.5", "--n", "1"]
    assert load.main([*words, "--url", service.url, "--token", "secret", "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    assert report["device"] == "a machine"
    points = [(p["rate"], p["requests"], p["answered"]) for p in report["points"]]
    assert points == [(None, 2, 2), (5, 5, 5), (10, 10, 10)]
    assert "secret" not in file.read_text()
    assert report["figures"]["capacity.service"] == 0.0
    assert not own_data.exists()


def test_a_service_that_refuses_the_model_ends_the_test_with_its_sentence(service, judge, capsys):
    service.answer = lambda body: (422, {}, {"detail": "target is 'm': there is no such model"})
    with pytest.raises(SystemExit) as stopped:
        load.main(["--target", "m", "--url", service.url])
    assert stopped.value.code == 2
    assert "the service refuses the request: target is 'm': there is no such model" in capsys.readouterr().err


def test_ctrl_c_reports_what_is_done(service, judge, own_data, tmp_path, monkeypatch, capsys):
    service.answer = lambda body: (200, {}, completion(("    return 0\n", "stop", 0.1)))
    run = Client.send_when_due

    def interrupted_at_ten(self, requests, on_progress):
        if len(requests) == 10:
            raise KeyboardInterrupt
        return run(self, requests, on_progress)

    monkeypatch.setattr(Client, "send_when_due", interrupted_at_ten)
    file = tmp_path / "load.json"
    words = ["--target", "m", "--rates", "5,10", "--duration", "1", "--budget", "0.5", "--url", service.url]
    assert load.main([*words, "--json", str(file)]) == 1
    assert [p["rate"] for p in json.loads(file.read_text())["points"]] == [None, 5.0]
    assert "interrupted: finished rates are reported" in capsys.readouterr().err


def test_an_imported_dataset_that_is_not_here_is_named(own_data, capsys):
    with pytest.raises(SystemExit) as stopped:
        load.main(["--target", "m", "--dataset", "mine"])
    assert stopped.value.code == 2
    assert "there is no dataset 'mine'" in capsys.readouterr().err


def test_a_service_that_does_not_start_says_why(own_data, monkeypatch):
    monkeypatch.setenv("BASSLINE_LEASE_S", "no number")
    with pytest.raises(ServiceError, match="does not start: Error: BASSLINE_LEASE_S"), serve_own():
        pass


@pytest.mark.thorough
@pytest.mark.slow
def test_a_service_of_its_own_is_started_loaded_and_measured(judge, own_data, tmp_path, monkeypatch):
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # matrices this small only wait for each other on several threads
    model = tiny_qwen2()
    model.config.max_position_embeddings = 4096  # each byte of a prompt is a token
    model.save_pretrained(tmp_path / "tiny")
    byte_tokenizer().save_pretrained(tmp_path / "tiny")
    file = tmp_path / "load.json"
    words = "--rates 1 --duration 3 --budget 20 --n 2 --max-tokens 16"
    began = time.monotonic()
    assert load.main(["--target", str(tmp_path / "tiny"), *words.split(), "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    assert time.monotonic() - began > 3  # requests arrive over the whole window
    assert [(row["rate"], row["requests"], row["answered"]) for row in report["rows"]] == [("idle", 1, 1), ("1", 3, 3)]
    assert report["figures"]["service.r1.tokens_per_s"] > 0
    assert report["points"][1]["n_given"] == 2
    assert report["settings"]["provenance"]["torch_version"]
