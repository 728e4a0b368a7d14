"""The client of a load test that asks another OpenAI-compatible server, as a run with such a target does."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from app.core.errors import BadInputError
from app.core.remote.chunks import RemoteServerError
from app.core.remote.engine import RemoteEngine
from app.core.remote.target import parse_target
from app.jobs.work.decode_job import build_task_prompt
from benchmarks._load_client import Client, PlannedRequest, Reply
from benchmarks._load_service import ServiceError
from decoding.models.errors import ModelError
from decoding.request import Completion, Request, RequestError, SamplingParams
from evaluation.prompting import Prompt, PromptError


@dataclass(frozen=True)
class RemoteClient(Client):
    """Asks the server of an `openai:` target; `engine` knows what the server takes."""

    engine: RemoteEngine = field(kw_only=True)

    def _open_http(self) -> Any:
        return contextlib.nullcontext()

    async def _ask(self, http: Any, request: PlannedRequest, due: float) -> Reply:
        """One task's samples; a busy server is asked again until the budget is over, as in a run."""
        reply = Reply(request, late_s=time.perf_counter() - due)
        try:
            prompt, text = build_task_prompt(self.engine, self._describe_run(), request.task)  # type: ignore[arg-type]
            done = await self.engine.generate_on_loop(self._build_request(request, prompt, text))
        except (RequestError, RemoteServerError, PromptError) as error:
            reply.fault = str(error)
            return reply
        reply.answered_s, reply.status, reply.fate = time.perf_counter() - due, 200, "answered"
        reply.content = json.dumps(self._build_document(done, prompt.mode)).encode()
        return reply

    def _describe_run(self) -> SimpleNamespace:
        return SimpleNamespace(prompt_mode=self.body["prompt_mode"], provenance={}, target=self.body["target"])

    def _build_request(self, request: PlannedRequest, prompt: Prompt, text: str) -> Request:
        return Request(
            prompt=text,
            n=self.body["n"],
            sampling=SamplingParams(self.body["temperature"], 0.95),
            seed=request.seed,
            budget_s=self.body["budget_s"],
            max_new_tokens=self.body["max_tokens"],
            stop=prompt.stop,
        )

    def _build_document(self, done: Completion, mode: str) -> dict[str, Any]:
        """The completion as our own service answers it."""
        samples = [
            {
                "index": sample.index,
                "raw": sample.text + sample.stop_string if mode == "chat" else sample.text,
                "finish_reason": sample.finish_reason,
                "finished_s": sample.finished_s,
                "mean_logprob": sample.mean_logprob,
                "n_tokens": sample.n_tokens,
            }
            for sample in done.samples
        ]
        run = {"state": "finished", "error": None, "prompt_mode_used": mode, "budget_s": self.body["budget_s"]}
        return {"run": {**run, "provenance": dict(self.engine.get_provenance())}, "samples": samples}


def load_engine(target: str) -> RemoteEngine:
    """The engine of an `openai:` target. Raises ServiceError where its server does not answer."""
    try:
        return RemoteEngine.load(parse_target(target))
    except (ModelError, BadInputError) as error:
        raise ServiceError(str(error)) from None
