"""The course of a load test: warm the service, measure it idle, then at each rate."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from app.core.remote.target import is_remote
from benchmarks import _load_client
from benchmarks._load_client import Client, Reply
from benchmarks._load_figures import MeasuredService
from benchmarks._load_grading import Judge
from benchmarks._load_remote import RemoteClient, load_engine
from benchmarks._load_service import ServiceError, watch_others
from evaluation.datasets import Task
from evaluation.load_metrics import build_point

LOADING_S = 600.0  # for the model
BUSY_S = 2.0  # after a refusal that does not say when to come again
REQUEST_FAULTS = range(400, 500)


class LoadRefusedError(ValueError):
    """The service does not take these requests; the message is its own."""


class LoadTest:
    """A load test. `measured` is what is done so far; `faults` say why requests failed, a line each."""

    def __init__(self, options: argparse.Namespace, prompts: Sequence[Task], judge: Judge) -> None:
        self.prompts = prompts
        self.measured = MeasuredService()
        self.provenance: dict[str, Any] = {}
        self._options = options
        self._judge = judge
        self._faults: dict[str, int] = {}
        self._windows_left = 0

    @property
    def device(self) -> str:
        """Where the service decodes."""
        return str(self.provenance.get("device_name") or self.provenance.get("device") or "unknown")

    @property
    def faults(self) -> list[str]:
        """Why requests were refused or have failed, the most frequent first."""
        ranked = sorted(self._faults.items(), key=lambda pair: -pair[1])
        return [f"{count} not answered: {fault}" for fault, count in ranked]

    def run(self, address: str) -> None:
        """Measure a service. Raises LoadRefusedError and ServiceError."""
        client = self._open_client(address)
        _print(f"loading {self._options.target}, then prompts to answer: {len(self.prompts)}")
        self._warm(client)
        self._windows_left = len(self._options.rates)
        self._measure_idle(client)
        for rate in self._options.rates:
            self._measure_rate(client, rate)

    def _open_client(self, url: str) -> Client:
        options = self._options
        body = {
            "target": options.target,
            "n": options.n,
            "budget_s": options.budget,
            "temperature": options.temperature,
            "max_tokens": options.max_tokens,
            "prompt_mode": options.prompt_mode,
        }
        if options.drafter:
            body["drafter"] = options.drafter
        if is_remote(options.target):
            return RemoteClient(url, "", body, options.budget, engine=load_engine(options.target))
        return Client(url, options.token, body, options.budget)

    def _warm(self, client: Client) -> None:
        """Loads the model, and lets the service meet every prompt once: its prefix cache then serves all rates alike.

        Raises LoadRefusedError if it refuses the request, ServiceError if it does not answer.
        """
        requests = _load_client.plan_idle_requests(self.prompts, self._options.seed)
        warm_up_client = replace(
            client, body=client.body | {"n": 1, "max_tokens": 1, "budget_s": LOADING_S}, budget_s=LOADING_S
        )
        deadline = time.monotonic() + LOADING_S
        while True:
            (reply,), _ = warm_up_client.send_in_turn(requests[:1], _ignore_progress)
            if reply.fate == "answered" and reply.document["samples"]:
                break
            if reply.fate == "answered":
                raise ServiceError(f"the service cannot decode: {reply.document['run']['error']}")
            if reply.status in REQUEST_FAULTS and reply.fate == "failed":
                raise LoadRefusedError(f"the service refuses the request: {reply.fault}")
            if reply.fate == "failed" or time.monotonic() > deadline:
                raise ServiceError(f"{client.url} does not answer: {reply.fault}")
            time.sleep(reply.retry_after_s or BUSY_S)
        self.provenance = reply.document["run"]["provenance"]
        warm_up_client.send_in_turn(requests[1:], _ignore_progress)
        client.send_in_turn(requests[:1], _ignore_progress)

    def _measure_idle(self, client: Client) -> None:
        def progress(_sent: int, settled: int, _seconds: float) -> None:
            if settled % 10 == 0:
                self._report_progress(f"idle: {settled} of {len(requests)} answered", 0.0)

        requests = _load_client.plan_idle_requests(self.prompts, self._options.seed)
        self._report_progress(f"idle: 0 of {len(requests)} answered, one at a time", 0.0)
        lost = self._start_watching_others()
        replies, waited = client.send_in_turn(requests, progress)
        self._settle(None, replies, waited, waited, lost())

    def _measure_rate(self, client: Client, rate: float) -> None:
        requests = _load_client.plan_window(rate, self._options.duration, self.prompts, self._options.seed)

        def progress(sent: int, settled: int, seconds: float) -> None:
            self._report_progress(f"at {rate:g}/s: {sent} of {len(requests)} sent, {settled} settled", seconds)

        progress(0, 0, 0.0)
        lost = self._start_watching_others()
        replies, elapsed = client.send_when_due(requests, progress)
        self._windows_left -= 1
        self._settle(rate, replies, self._options.duration, elapsed, lost())

    def _start_watching_others(self) -> Callable[[], float | None]:
        """Returns a function: the share that others took since, None elsewhere."""
        is_elsewhere = self._options.url is not None or is_remote(self._options.target)
        return watch_others() if not is_elsewhere else lambda: None

    def _settle(
        self,
        rate: float | None,
        replies: Sequence[Reply],
        window_s: float,
        elapsed_s: float,
        lost_to_others: float | None,
    ) -> None:
        asked = self._judge.judge_replies(replies)
        found = build_point(asked, rate, self._options.budget, window_s, elapsed_s)
        found = replace(found, lost_to_others=lost_to_others)
        for reply in replies:
            if reply.fault:
                # A refusal says how many wait, which differs each time.
                fault = f"refused with {reply.status}" if reply.fate == "refused" else reply.fault
                self._faults[fault] = self._faults.get(fault, 0) + 1
        self.measured.points[rate] = found
        where = "idle" if rate is None else f"at {rate:g}/s"
        _print(
            f"{where}: Pass@First {100 * found.pass_first:.0f} %, {found.right_in_time_per_s:.3f} right answers "
            f"in time per second, {found.refused} refused, {found.failed} failed"
        )

    def _report_progress(self, what: str, seconds: float) -> None:
        window = self._options.duration + self._options.budget
        left = max(0.0, self._windows_left * window - seconds)
        _print(f"{what}; about {left:.0f} s of windows left")


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _ignore_progress(_sent: int, _settled: int, _seconds: float) -> None:
    """No progress."""
