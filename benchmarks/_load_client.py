"""The requests of a load test, from one seed, and the client that sends each when it is due (an open loop)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import numpy as np

from app.core.remote.connection import run_in_own_loop
from evaluation.datasets import Task
from evaluation.load_metrics import Fate

PATIENCE_S = 60.0  # after the budget
PAUSE_S = 0.25  # between two requests to the idle service
REPORT_EVERY_S = 10.0
REFUSALS = (httpx2.codes.TOO_MANY_REQUESTS, httpx2.codes.SERVICE_UNAVAILABLE)

OnProgress = Callable[[int, int, float], None]
"""Receives the requests sent, the requests settled, and the seconds since the window began."""


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request: due `due_s` seconds after the window began. `key` names it among all requests of the test."""

    key: str
    due_s: float
    task: Task
    seed: int


def draw_arrivals(rate: float, duration_s: float, seed: int) -> list[float]:
    """When requests are due, in seconds: Poisson arrivals at `rate` per second, given their expected number.

    Given their number, the arrivals of a Poisson process are independent and uniform over the window. The number is
    fixed, at least 1, so that the rate of the test is the one that it names.
    """
    count = max(1, round(rate * duration_s))
    draws = np.random.default_rng([seed, round(rate * 1e6)]).uniform(0.0, duration_s, count)
    return [float(due) for due in np.sort(draws)]


def shuffle_tasks(tasks: Sequence[Task], seed: int) -> list[Task]:
    """The tasks in an order that the seed decides."""
    return [tasks[i] for i in np.random.default_rng(seed).permutation(len(tasks))]


def count_prompts(rates: Sequence[float], duration_s: float, budget_s: float) -> int:
    """How many prompts a test takes: as many as the idle service surely answers in one window, at most as needed.

    Every rate asks for the same prompts in turn, and so does the idle service. So a difference between two rates is
    not one between their prompts.
    """
    most = max(len(draw_arrivals(rate, duration_s, 0)) for rate in rates)
    return max(1, min(most, int(duration_s / budget_s)))


def plan_window(rate: float, duration_s: float, prompts: Sequence[Task], seed: int) -> list[PlannedRequest]:
    """The requests at one rate, in the order in which they are due; each has a seed of its own."""
    return [
        PlannedRequest(f"{rate:g}/{i}", due, prompts[i % len(prompts)], seed + i)
        for i, due in enumerate(draw_arrivals(rate, duration_s, seed))
    ]


def plan_idle_requests(prompts: Sequence[Task], seed: int) -> list[PlannedRequest]:
    """The requests to the idle service: each prompt once."""
    return [PlannedRequest(f"idle/{i}", 0.0, task, seed + i) for i, task in enumerate(prompts)]


@dataclass(slots=True)
class Reply:
    """The outcome of a request."""

    planned: PlannedRequest
    late_s: float  # how long after it was due it was sent
    fate: Fate = "failed"
    answered_s: float = 0.0  # how long after it was due its whole answer was there
    status: int = 0  # of HTTP, 0 for none
    content: bytes = b""  # the answer
    retry_after_s: float | None = None
    fault: str = ""  # why there is no answer

    @property
    def document(self) -> dict[str, Any]:
        """The completion as the API answered it."""
        found = json.loads(self.content)
        assert isinstance(found, dict)
        return found


@dataclass(frozen=True)
class Client:
    """Asks a service for completions. `body` is what all requests have in common."""

    url: str
    token: str
    body: dict[str, Any]
    budget_s: float
    headers: dict[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.token:
            self.headers["Authorization"] = f"Bearer {self.token}"

    def send_when_due(self, requests: Sequence[PlannedRequest], on_progress: OnProgress) -> tuple[list[Reply], float]:
        """(the replies in the order of the requests, seconds until the last was settled). Sends each when it is due."""
        return run_in_own_loop(self._send_all(requests, on_progress))

    def send_in_turn(self, requests: Sequence[PlannedRequest], on_progress: OnProgress) -> tuple[list[Reply], float]:
        """(the replies, seconds spent waiting for them). Sends each after the one before, with a pause in between."""
        return run_in_own_loop(self._send_each(requests, on_progress))

    async def _send_all(self, requests: Sequence[PlannedRequest], on_progress: OnProgress) -> tuple[list[Reply], float]:
        tasks: list[asyncio.Task[Reply]] = []
        async with self._open_http() as http:
            began = time.perf_counter()
            reporter = asyncio.create_task(_report(began, tasks, on_progress))
            for request in requests:
                await asyncio.sleep(began + request.due_s - time.perf_counter())
                tasks.append(asyncio.create_task(self._ask(http, request, began + request.due_s)))
            replies = await asyncio.gather(*tasks)
            reporter.cancel()
        return replies, time.perf_counter() - began

    async def _send_each(
        self, requests: Sequence[PlannedRequest], on_progress: OnProgress
    ) -> tuple[list[Reply], float]:
        replies: list[Reply] = []
        waited = 0.0
        async with self._open_http() as http:
            for request in requests:
                began = time.perf_counter()
                replies.append(await self._ask(http, request, began))
                waited += time.perf_counter() - began
                on_progress(len(replies), len(replies), waited)
                await asyncio.sleep(PAUSE_S)
        return replies, waited

    def _open_http(self) -> httpx2.AsyncClient:
        # Kept connections would save little, and a service that closes one while it is used looks like a failure.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        timeout = httpx2.Timeout(self.budget_s + PATIENCE_S, connect=self.budget_s)
        local = httpx2.URL(self.url).host in ("127.0.0.1", "localhost", "::1")
        return httpx2.AsyncClient(headers=self.headers, limits=limits, timeout=timeout, trust_env=not local)

    async def _ask(self, http: httpx2.AsyncClient, request: PlannedRequest, due: float) -> Reply:
        """`due` is on the clock of time.perf_counter."""
        reply = Reply(request, late_s=time.perf_counter() - due)
        try:
            answer = await http.post(f"{self.url}/api/v1/complete", json=build_body(self.body, request))
        except httpx2.HTTPError as error:
            reply.fault = f"{type(error).__name__}: {error}".rstrip(": ")
            return reply
        reply.answered_s, reply.status = time.perf_counter() - due, answer.status_code
        if answer.is_success:
            reply.fate, reply.content = "answered", answer.content
        else:
            reply.fate = "refused" if answer.status_code in REFUSALS else "failed"
            reply.retry_after_s = _parse_seconds(answer.headers.get("Retry-After"))
            reply.fault = _get_detail(answer)
        return reply


def build_body(common: dict[str, Any], request: PlannedRequest) -> dict[str, Any]:
    """The body of POST /api/v1/complete: the prompt of the task as `bassline eval` asks for it, without its test."""
    task = request.task
    suffix = {} if task.suffix is None else {"suffix": task.suffix}
    return {**common, "prompt": task.prompt, "entry_point": task.entry_point, "seed": request.seed, **suffix}


async def _report(began: float, tasks: list[asyncio.Task[Reply]], on_progress: OnProgress) -> None:
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        on_progress(len(tasks), sum(task.done() for task in tasks), time.perf_counter() - began)


def _parse_seconds(header: str | None) -> float | None:
    return float(header) if header is not None and header.isdecimal() else None


def _get_detail(answer: httpx2.Response) -> str:
    """The sentence of a problem document, else the status."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} {answer.reason_phrase}"
