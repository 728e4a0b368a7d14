"""Stand-ins for the engine and the sandbox, for tests of app/ only: instant, deterministic, steered by the prompt."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace

import app.domains  # noqa: F401 (registers the policies, as every process does at its start)
from app.core.broker import queues
from app.core.broker.broker import MemoryBroker, Message
from decoding.models.infilling import InfillFormat
from decoding.request import Calibration, Completion, PromptToken, Request, RequestError, Sample, Update
from evaluation.verdicts import Status, Trust, Verdict

RIGHT = "    return a + b\n"
WRONG = "    return a - b\n"
FENCE = "\n```"
INFILL = InfillFormat("test", "<PRE>{prefix}<SUF>{suffix}<MID>", ("<PRE>", "<SUF>", "<MID>"), "")
VOCABULARY = 256  # a token of a prompt is a character
TOP = (("    ", -0.05), ("\tif", -1.5), ("\n", -2.5))


class FakeEngine:
    """Answers `RIGHT` on even sample indices and `WRONG` on odd ones; sample i finishes `pace` * 0.1 * (i + 1) s in.

    `hold` makes generate() wait until it is set (or the caller cancels), as a slow model would.
    `places` requests find room in one batch; `most_together` is how many did at most.
    """

    has_chat_template = False
    infill_format = None
    context_length = 4096

    def __init__(self, hold: threading.Event | None = None, pace: float = 1.0) -> None:
        self.hold = hold
        self.pace = pace
        self.started = threading.Event()
        self.requests: list[Request] = []
        self.places = 2
        self.most_together = 0
        self.calibrations = 0

    def render_chat(self, messages: list[dict[str, str]], reply_prefix: str, template_kwargs=None) -> str:
        return "\n".join(m["content"] for m in messages) + reply_prefix

    def decode(self, tokens: Sequence[int]) -> str:
        if max(tokens) >= VOCABULARY:
            raise RequestError(f"prompt holds the token id {max(tokens)}: use this model's tokenizer")
        return "".join(map(chr, tokens))

    def get_provenance(self) -> dict[str, str | int | float | None]:
        return {"target_sha256": "0" * 64, "device": "fake"}

    def calibrate(self) -> Calibration:
        self.calibrations += 1
        return Calibration(0.02, 1e10, 1e12)

    def count_memory(self) -> dict[object, int]:
        return {}

    def generate(self, request: Request, on_update=None, should_cancel=None) -> Completion:
        if len(request.prompt) > self.context_length:
            raise RequestError(
                f"prompt is {len(request.prompt)} tokens long and the model can look at 4096: shorten it"
            )
        self.requests.append(request)
        self.started.set()
        cancelled = False
        while self.hold is not None and not self.hold.is_set() and not cancelled:
            time.sleep(0.01)
            cancelled = bool(should_cancel and should_cancel())
        samples = [self._sample(request, i, cancelled) for i in range(request.n)]
        if on_update:
            on_update(
                [
                    Update(
                        s.index,
                        s.text,
                        s.n_tokens,
                        ("target",) * s.n_tokens,
                        s.mean_logprob,
                        s.finished_s or 0.0,
                        s.finish_reason,
                    )
                    for s in samples
                ]
            )
        # All that app/ reads of a round.
        rounds: list = [SimpleNamespace(draft_s=0.01, verify_s=0.02, other_s=0.001, n_verified=8)]
        cached_tokens = 5 if request.prefix_cache else 0
        wall_s = self.pace * 0.1 * request.n
        return Completion(
            *(samples, len(request.prompt), rounds, 0.05, wall_s),
            cached_tokens=cached_tokens,
            prompt_logprobs=self._scored(request),
        )

    def _scored(self, request: Request) -> list[PromptToken] | None:
        """Every token of the prompt has the log-probability -0.5, and `TOP` in its place; none in a short time."""
        n = request.prompt_logprobs
        if n is None or (request.budget_s or 1) < 0.01:
            return None
        first, *rest = request.prompt if isinstance(request.prompt, str) else self.decode(request.prompt)
        return [PromptToken(first, None, ()), *(PromptToken(each, -0.5, TOP[:n]) for each in rest)]

    def serve(self, requests, on_update=None, should_cancel=None):
        """As generate_many, with those that have come."""
        incoming, together = iter(requests), deque[tuple[int, Request]]()
        n_taken, is_over = 0, False
        while together or not is_over:
            while not is_over and len(together) < self.places:
                request = next(incoming, self)
                is_over = request is self
                if is_over or request is None:
                    break
                together.append((n_taken, request))
                n_taken += 1
            self.most_together = max(self.most_together, len(together))
            if together:
                yield self._answer(*together.popleft(), on_update, should_cancel)

    def _answer(self, position, request, on_update, should_cancel):
        told = partial(on_update, position) if on_update else None
        cancels = partial(should_cancel, position) if should_cancel else None
        try:
            return position, self.generate(request, told, cancels)
        except RequestError as error:
            return position, error

    def generate_many(self, requests, on_update=None, should_cancel=None):
        """Up to `places` requests at a time, each answered by generate(), the longest waiting first."""
        incoming, together = enumerate(requests), deque[tuple[int, Request]]()
        while True:
            while len(together) < self.places and (arrival := next(incoming, None)):
                together.append(arrival)
            self.most_together = max(self.most_together, len(together))
            if not together:
                return
            yield self._answer(*together.popleft(), on_update, should_cancel)

    def _sample(self, request: Request, i: int, cancelled: bool) -> Sample:
        return Sample(
            index=i,
            seed=request.seed,
            text=WRONG if i % 2 else RIGHT,
            token_ids=[1, 2, 3, 4],
            logprobs=[-0.1 * (i + 1)] * 4,
            origins=["draft", "target"] * 2,
            ends=[4, 10, 12, 17],
            top_logprobs=[TOP[: request.top_logprobs]] * 4 if request.top_logprobs else [],
            eos_logprob=-0.7 if i == 0 else None,
            finish_reason="cancelled" if cancelled else "stop",
            stop_string=FENCE if FENCE in request.stop else "",
            first_token_s=0.05,
            finished_s=self.pace * 0.1 * (i + 1),
            n_rounds=2,
            n_drafted=6,
            n_accepted=2,
        )


class StreamingEngine(FakeEngine):
    """Tells of each sample as it grows: every sample gains a token per step, a step taking some milliseconds.

    Sample i ends at step 4 + i. `rest` makes it repeat step 4 until it is set.
    """

    step_s = 0.15
    rest: threading.Event | None = None

    def generate(self, request, on_update=None, should_cancel=None):
        completion = super().generate(request, None, should_cancel)
        for step in range(1, 9):
            time.sleep(self.step_s)
            updates = [self._at(sample, step) for sample in completion.samples]
            if on_update:
                on_update(updates)
            while step == 4 and self.rest is not None and not self.rest.wait(self.step_s):
                if on_update:
                    on_update(updates)
        return completion

    def _at(self, sample, step: int) -> Update:
        done = step >= 4 + sample.index
        text = sample.text[: len(sample.text) * step // (4 + sample.index)]
        return Update(sample.index, text, step, ("draft",), sample.mean_logprob, step * self.step_s,
                      "stop" if done else None, (len(text),))  # fmt: skip


class RecordingBroker(MemoryBroker):
    """Keeps what was sent, also after a worker took it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Message] = []

    def send(self, messages: Iterable[Message], queue: str) -> None:
        messages = list(messages)
        self.sent += messages
        super().send(messages, queue)

    def drain(self) -> None:
        """Loses every message, as a broker that restarts without its memory does."""
        while self.get(queues.ALL, 0.0):
            pass


class FakeGrader:
    """Passes programs that hold `RIGHT`'s expression; canonical solutions pass unless they say `broken`."""

    sandbox = "fake"

    def judge_many(self, items: Sequence[tuple[str, object]], workers: int) -> Iterator[tuple[int, Verdict]]:
        for position, (program, _task) in enumerate(items):
            passed = "a + b" in program and "broken" not in program
            yield (
                position,
                Verdict(
                    Status.PASSED if passed else Status.WRONG_ANSWER,
                    *("", "", None, None, None, 0.01, 0.02, 1, "bwrap", Trust.PROXY),
                ),
            )
