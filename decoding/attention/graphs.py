"""Rounds as CUDA graphs: the host gives a round to the GPU in a few calls and reads its outcome once.

A forward of a small model is hundreds of kernels, and starting them from Python takes longer than running them. A
CUDA graph is recorded once per shape and started as a whole. So shapes are few: rows and tokens per row are rounded up
to buckets. Rows beyond the batch and tokens beyond a row's draft compute on token 0 behind everything committed; what
they write is garbage past a length, which the ragged cache never reads (cache.py).

Two kinds of graph, both over buffers that stay in place: `DraftGraphs` runs one step of the draft model, k times, each
feeding the next, and `VerifyGraphs` the target's forward, with the acceptance behind it. Drafts go from one to the
other on the device. A replay reads lengths and sampling parameters from its input buffers, so it stays valid while
rows grow and for every request: the shapes are few, and all are captured when an engine is loaded.

Where a graph cannot be captured, one line is logged and rounds run without graphs from then on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from decoding.acceptance import rules
from decoding.acceptance.noise import Role
from decoding.acceptance.rules import NO_TOKEN, Positions
from decoding.acceptance.sampling import KINDS, Distribution, Kind, kind_of, limits_of, narrow, narrow_by, shape
from decoding.attention.layout import Layout
from decoding.attention.ragged import MaskStore
from decoding.attention.runner import ModelRunner
from decoding.config import MAX_DRAFT_LENGTH
from decoding.drafters.base import PENDING, Proposal
from decoding.request import SamplingParams
from kernels import accept
from kernels.rows import RaggedRows

_log = logging.getLogger(__name__)
_TOKENS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, MAX_DRAFT_LENGTH + 1)
# Runs before a capture: kernels are compiled, libraries choose theirs, and buffers come into being.
_WARM_UPS = 2
# What a draft model may have to catch up with inside the graph: the pending token and its own last draft.
FIRST_FEED = 2


def bucket_rows(n: int) -> int:
    """Return the number of rows that graphs are captured for, the least at or above `n`: 1, 2, 4, then eights."""
    return next((size for size in (1, 2, 4) if size >= n), -(-n // 8) * 8)


def bucket_tokens(n: int) -> int:
    """Return the tokens per row (k + 1) that graphs are captured for, the least at or above `n`."""
    return next(size for size in _TOKENS if size >= n)


@dataclass(frozen=True, slots=True)
class Work:
    """Something to replay: `inputs` on the device, to be filled before; `run` returns tensors that stay put."""

    inputs: dict[str, torch.Tensor]
    run: Callable[[], tuple[torch.Tensor, ...]]


class Graphs:
    """The captured graphs of one model over its cache, by shape; `ready` is False once a capture has failed.

    `captured_s` are the seconds that captures have taken. Without `uses_kernel` draws and acceptance are PyTorch's.
    """

    def __init__(self, runner: ModelRunner, *, uses_kernel: bool = True) -> None:
        self.runner = runner
        self.ready = True
        self.uses_kernel = uses_kernel
        self.captured_s = 0.0
        self._dearest_s = 0.0
        self._works: dict[Hashable, Work] = {}
        self._capacity = 0
        self._pool = torch.cuda.graph_pool_handle() if runner.device.type == "cuda" else None

    @property
    def capture_ahead_s(self) -> float:
        """What capturing anew will take in the next round: the dearest capture so far if the cache has moved."""
        return self._dearest_s if self.ready and self._works and self._has_moved else 0.0

    @property
    def _has_moved(self) -> bool:
        return self._capacity != self.runner.cache.capacity

    def replay(
        self, key: Hashable, make: Callable[[], Work], values: dict[str, Any]
    ) -> tuple[torch.Tensor, ...] | None:
        """Run the work of a shape on `values`, captured at its first use; None when graphs do not work here.

        `values` are host lists or device tensors, by the names of the work's inputs; they are copied in.
        """
        if not self.ready:
            return None
        if self._has_moved:
            # The cache has moved, and what was captured would write where it was.
            self._works.clear()
            self._capacity = self.runner.cache.capacity
        work = self._works.get(key)
        if work is None:
            started = time.perf_counter()
            work = make()
            _fill(work, values)
            try:
                work = self._works[key] = self._capture(work)
            except RuntimeError as error:
                self.ready = False
                self._works.clear()
                why = (str(error).strip() or type(error).__name__).splitlines()[0]
                _log.warning("no CUDA graph of %s (%s): its rounds run without, more slowly", self.runner.name, why)
                return None
            seconds = time.perf_counter() - started
            self.captured_s += seconds
            self._dearest_s = max(self._dearest_s, seconds)
        else:
            _fill(work, values)
        return work.run()

    def _capture(self, work: Work) -> Work:
        """Record the work as a graph; on a CPU, where there are none, replaying is running it again."""
        if self._pool is None:
            return work
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                work.run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            outputs = work.run()

        def replay() -> tuple[torch.Tensor, ...]:
            graph.replay()
            return outputs

        return Work(work.inputs, replay)

    def buffers(self, **shapes: tuple[int, ...]) -> dict[str, torch.Tensor]:
        """Return int64 input buffers of the given shapes."""
        return {name: torch.zeros(size, dtype=torch.int64, device=self.runner.device) for name, size in shapes.items()}

    def forward(self, ids: torch.Tensor, length: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        """Return logits [R * T, V] of `ids` [R, T] behind `length` [R], or [R, V] of the packed tokens in `keep`."""
        R, T = ids.shape
        cache, device = self.runner.cache, self.runner.device
        assert cache.max_rows >= R
        packed = torch.arange(R * T, device=device)
        position = (length[:, None] + torch.arange(T, device=device)).flatten()
        layout = Layout(0, (0,) * R, (T,) * R, packed // T, position, packed.view(R, T), packed)
        cache.use(layout)
        each = torch.full((R,), T, dtype=torch.int32, device=device)
        logits: torch.Tensor = self.runner.model(
            input_ids=ids.view(1, -1),
            position_ids=position[None],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=0 if keep is None else keep,
            layout=layout,
            masks=MaskStore(),
            rows=RaggedRows(packed[::T].int(), each, length.int(), position, T),
        ).logits[0]
        return logits[:, : self.runner.vocab_size]


@dataclass(frozen=True, slots=True)
class Verified:
    """Per row: how many draft tokens stand, the tokens to take, and their log-probabilities."""

    accepted: list[int]
    tokens: list[list[int]]
    logprobs: list[list[float]]


class VerifyGraphs(Graphs):
    """The target's forward over all rows' proposals as a graph, the acceptance behind it; one sample to a row.

    The acceptance is a few dozen kernels, which the host hands over while the forward runs. Outside the graph it may
    depend on the request's sampling parameters, and graphs serve every request.
    """

    def __init__(self, runner: ModelRunner, *, coupled: bool, uses_kernel: bool = True) -> None:
        super().__init__(runner, uses_kernel=uses_kernel)
        self._coupled = coupled

    def prepare(self, max_rows: int, longest: int) -> None:
        """Capture the shapes of up to `max_rows` rows and drafts of up to `longest` tokens, before a clock runs."""
        for R in sorted({bucket_rows(n) for n in range(1, max_rows + 1)}, reverse=True):
            for T in sorted({bucket_tokens(n) for n in range(1, longest + 2)}, reverse=True):
                self._forward(R, T, {})

    def verify(
        self, last: Sequence[int], keys: Sequence[int], proposal: Proposal, sampling: SamplingParams
    ) -> Verified | None:
        """Return what stands of a proposal behind each row's pending token `last`; None when graphs do not work."""
        n = len(last)
        drafted = [len(tokens) for tokens in proposal.tokens]
        k = max(drafted)
        R, T = bucket_rows(n), bucket_tokens(k + 1)
        lens = self.runner.cache.lens
        if max(lens) + T > self.runner.cache.capacity:
            raise RuntimeError(f"cache overflow: {max(lens) + T} tokens, capacity {self.runner.cache.capacity}")
        idle = R - n
        values: dict[str, Any] = {
            "ids": [[t, *d, *[0] * (T - 1 - len(d))] for t, d in zip(last, proposal.tokens, strict=True)]
            + [[0] * T] * idle,
            "length": [*lens, *[0] * idle],
            "keys": [*keys, *[0] * idle],
            "drafted": [*drafted, *[0] * idle],
        }
        if proposal.pending is not None:
            values["pending"] = proposal.pending[:n, :k]
        out = self._forward(R, T, values)
        if out is None:
            return None
        # The distributions of drafts that are certainties take no place, nor have they any with the coupled rule.
        q = None if self._coupled or not k or proposal.q is None else _padded(proposal.q, n, k, R, T - 1)
        p, found = narrow(out[0], sampling)
        rows = self._decide(p, found, q, *out)[:n].tolist()
        if not all(row[1] for row in rows):
            # Some nucleus was wider than the search: decide again, on the same logits, with all it takes.
            rows = self._decide(shape(out[0], sampling), torch.ones_like(found), q, *out)[:n].tolist()
        return Verified(
            accepted=[int(row[0]) for row in rows],
            tokens=[[int(t) for t in row[2 : 3 + int(row[0])]] for row in rows],
            logprobs=[row[2 + T : 3 + T + int(row[0])] for row in rows],
        )

    def _forward(self, R: int, T: int, values: dict[str, Any]) -> tuple[torch.Tensor, ...] | None:
        """Return logits [R * T, V], the tokens [R, T] they follow, and `length`, `keys` and `drafted` [R]."""

        def make() -> Work:
            inputs = self.buffers(ids=(R, T), length=(R,), keys=(R,), drafted=(R,), pending=(R, max(T - 1, 1)))

            def run() -> tuple[torch.Tensor, ...]:
                ids = inputs["ids"].clone()
                ids[:, 1:] = torch.where(ids[:, 1:] == PENDING, inputs["pending"][:, : T - 1], ids[:, 1:])
                logits = self.forward(ids, inputs["length"])
                return logits, ids, inputs["length"], inputs["keys"], inputs["drafted"]

            return Work(inputs, run)

        return self.replay((R, T), make, values)

    def _decide(
        self,
        p: Distribution,
        found: torch.Tensor,  # bool [R * T], where p is complete
        q: tuple[torch.Tensor, torch.Tensor] | None,
        logits: torch.Tensor,  # [R * T, V]
        ids: torch.Tensor,  # [R, T], the pending token and the draft
        length: torch.Tensor,  # [R]
        keys: torch.Tensor,  # [R]
        drafted: torch.Tensor,  # [R]
    ) -> torch.Tensor:
        """Return float64 [R, 2 + 2 T]: tokens accepted, whether p was complete there, tokens, log-probabilities."""
        R, T = ids.shape
        step = torch.arange(T, device=ids.device)
        at = torch.arange(R * T, device=ids.device).view(R, T)
        position = length[:, None] + step + 1
        draft = ids[:, 1:].masked_fill(step[1:] > drafted[:, None], NO_TOKEN)
        if not self.uses_kernel:
            where = Positions(at, position)
            if self._coupled:
                accepted, emitted = rules.coupled(p, where, draft, keys)
            else:
                accepted, emitted = rules.maximal(p, where, draft, keys, q and Distribution(*q))
        elif self._coupled:
            accepted, emitted = accept.coupled(p.ids, p.logp, at, position, draft, keys, Role.SAMPLE)
        else:
            accepted, emitted = accept.maximal(p.ids, p.logp, at, position, draft, keys, q, Role.ACCEPT, Role.RESIDUAL)
        complete = (found.view(R, T) | (step > accepted[:, None])).all(dim=1)
        chosen = logits.view(R, T, -1).gather(2, emitted.clamp(min=0)[..., None])[..., 0].float()
        logprobs = chosen - logits.float().logsumexp(dim=1).view(R, T)
        # Token ids are exact in float64, so that everything leaves the device in one read.
        return torch.cat([t.double() for t in (accepted[:, None], complete[:, None], emitted, logprobs)], dim=1)


class DraftGraphs(Graphs):
    """One step of the draft model as a graph: draws a token for every row. It is run k times, each feeds the next."""

    def __init__(self, runner: ModelRunner, role: Role, *, uses_kernel: bool = True) -> None:
        super().__init__(runner, uses_kernel=uses_kernel)
        self._role = role

    def prepare(self, max_rows: int) -> None:
        """Capture the steps of up to `max_rows` rows, for every kind of distribution, before a clock runs."""
        for R in sorted({bucket_rows(n) for n in range(1, max_rows + 1)}, reverse=True):
            for kind in KINDS:
                for T in (FIRST_FEED, 1):
                    self._step(R, T, kind, {"fed": [1] * R, "limits": [1.0, 1.0, 0.0, 0.0]})

    def draft(
        self, feed: Sequence[Sequence[int]], keys: Sequence[int], k: int, sampling: SamplingParams
    ) -> tuple[torch.Tensor, Distribution | None] | None:
        """Return k tokens for each row, int64 [n, k], and what they were drawn from, [n * k, C]; both on the device.

        The distributions are None where the coupled rule has no use for them.

        `feed` are one or two tokens that the model has not seen, per row. None when graphs do not work here.
        """
        n = len(feed)
        R, kind = bucket_rows(n), kind_of(sampling)
        idle = R - n
        steady = {"keys": [*keys, *[0] * idle], "limits": limits_of(sampling)}
        values: dict[str, Any] = steady | {
            "ids": [[*tokens, *[0] * (FIRST_FEED - len(tokens))] for tokens in feed] + [[0] * FIRST_FEED] * idle,
            "fed": [*map(len, feed), *[1] * idle],
            "length": [*self.runner.cache.lens, *[0] * idle],
        }
        tokens, laws = [], []
        for step in range(k):
            out = self._step(R, 1 if step else FIRST_FEED, kind, values)
            if out is None:
                return None
            drawn, length, *law = out
            # The next replay of the same graph writes where this one wrote.
            tokens.append(drawn[:n].clone())
            laws.append([t[:n].clone() for t in law])
            values = {"ids": drawn, "length": length}
            if step == 0:
                values |= steady | {"fed": [1] * R}
        if self._role == Role.SAMPLE:
            return torch.cat(tokens, dim=1), None
        ids, logp = (torch.stack(each, dim=1).flatten(0, 1) for each in zip(*laws, strict=True))
        return torch.cat(tokens, dim=1), Distribution(ids, logp)

    def _step(self, R: int, T: int, kind: Kind, values: dict[str, Any]) -> tuple[torch.Tensor, ...] | None:
        """Return the tokens drawn [R, 1], the lengths behind what was fed [R] and, if wanted, ids and logp [R, C]."""

        def make() -> Work:
            inputs = self.buffers(ids=(R, T), fed=(R,), length=(R,), keys=(R,))
            inputs["limits"] = torch.ones(4, device=self.runner.device)

            def run() -> tuple[torch.Tensor, ...]:
                row = torch.arange(R, device=self.runner.device)
                logits = self.forward(inputs["ids"], inputs["length"], row * T + inputs["fed"] - 1)
                length = inputs["length"] + inputs["fed"]
                law = narrow_by(logits, kind, inputs["limits"])
                drawn = self._draw(law, inputs["keys"], length)
                return (drawn, length) if self._role == Role.SAMPLE else (drawn, length, law.ids, law.logp)

            return Work(inputs, run)

        return self.replay((R, T, kind), make, values)

    def _draw(self, law: Distribution, keys: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Return a token per row, int64 [R, 1]."""
        if not self.uses_kernel:
            return law.sample(keys, position, self._role)[:, None]
        rows = torch.arange(len(keys), device=keys.device)[:, None]
        return accept.coupled(law.ids, law.logp, rows, position[:, None], rows[:, :0], keys, self._role)[1]


def _padded(q: Distribution, n: int, k: int, R: int, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and logp of `q` [n * k, C] for R rows of `steps` steps, without mass where there was no draft."""
    space = (0, 0, 0, steps - k, 0, R - n)
    ids, logp = q.ids.view(n, k, -1), q.logp.view(n, k, -1)
    return F.pad(ids, space, value=-1).flatten(0, 1), F.pad(logp, space, value=float("-inf")).flatten(0, 1)


def _fill(work: Work, values: dict[str, Any]) -> None:
    """Copy values into the inputs; a value smaller than its input fills the beginning."""
    for name, value in values.items():
        buffer = work.inputs[name]
        tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        if buffer.is_cuda and not tensor.is_cuda:
            # From pinned memory the copy is queued behind the work before it, and the host does not wait.
            tensor = tensor.pin_memory()
        part = buffer[tuple(slice(size) for size in tensor.shape)]
        part.copy_(tensor, non_blocking=True)
