"""Every captured graph, compared once with forwards without graphs over the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.noise import draw_gumbel
from decoding.acceptance.sampling import to_distributions_nosync
from decoding.attention.drafting import BlockSampler, DraftingSteps, DraftSteps
from decoding.attention.drawing_graphs import BlockGraphs, DraftGraphs, SamplingGraphs, Shape
from decoding.attention.graphs import Graphs
from decoding.attention.runner_pool import RunnerPool
from decoding.attention.verify_graphs import VerifyGraphs
from decoding.checks.self_check import Decode, check_rounds, compare_top, describe_error, encode_probes
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.memory.pages import count_pages
from decoding.models.errors import get_first_line
from decoding.models.loaded import LoadedModel
from decoding.request import SamplingParams
from decoding.state.proposal import MODEL_EVIDENCE, Proposal
from decoding.state.row import DraftRequest
from kernels.upload import upload

# A row that draws from a nucleus, a greedy one, and one that draws from the whole vocabulary.
_SAMPLING = (SamplingParams(1.0), SamplingParams(0.0), SamplingParams(1.0, 1.0))


class GraphErrors(NamedTuple):
    """Why the target's graphs, and why the graphs of what drafts, must not be used; None where they are right."""

    target: str | None
    draft: str | None


def find_errors(target: LoadedModel, pool: RunnerPool, max_batch: int, decode: Decode) -> GraphErrors:
    """Compare what the graphs of a pool compute with forwards without; `decode` is the engine's `generate_many`."""
    if not pool.has_graphs:
        return GraphErrors(None, None)
    error = check_rounds(target, pool.make_runner(target, 1), decode)
    if error is not None:
        return GraphErrors(error, None)
    prompts = encode_probes(target)
    with pool.acquire(max_batch) as runners:
        target_error, *draft_errors = [find_error(graphs, prompts) for graphs in runners.graphs]
    return GraphErrors(target_error, draft_errors[0] if draft_errors else None)


@torch.inference_mode()
def find_error(graphs: Graphs[Any], prompts: Sequence[Sequence[int]]) -> str | None:
    """Return why a captured graph computes something else than a forward; None if all are right.

    `prompts` of three tokens or more begin the rows. Takes the caches of the graphs empty and leaves them empty.
    """
    if isinstance(graphs, VerifyGraphs):
        return _check_shapes(graphs, [graphs.runner], prompts, _check_verify)
    if isinstance(graphs, DraftGraphs):
        return _check_shapes(graphs, [graphs.runner], prompts, _check_draft)
    assert isinstance(graphs, BlockGraphs)
    return _check_shapes(graphs, [graphs.runner.target, graphs.runner], prompts, _check_block)


def _check_shapes(
    graphs: Any,
    runners: Sequence[Any],
    prompts: Sequence[Sequence[int]],
    check: Callable[[Any, Sequence[Sequence[int]], Any], str | None],
) -> str | None:
    """Check all shapes, the largest first, with one row fewer if it has over two, so that padding is checked too."""
    try:
        rows = [prompts[r % len(prompts)] for r in range(_count_rows(graphs, runners, prompts))]
        _start_rows(runners, rows, len(prompts))
        for shape in sorted(graphs.shapes, key=lambda shape: -shape[0]):
            n = shape[0] - (shape[0] > 2)
            if n > len(rows):
                continue
            while len(rows) > n:
                rows.pop()
                for runner in runners:
                    runner.cache.drop(len(rows))
            if error := check(graphs, rows, shape):
                return f"{' x '.join(map(str, shape))}: {error}"
    except Exception as failure:  # a device fails in its own ways
        return get_first_line(failure)
    finally:
        for runner in runners:
            runner.cache.clear()
    return None


def _count_rows(graphs: Graphs[Any], runners: Sequence[Any], prompts: Sequence[Sequence[int]]) -> int:
    n_tokens = _compute_capacity(max(prompts, key=len))
    fits: int = min(
        pool.n_free // count_pages(n_tokens, pool.page_size) for pool in (each.cache.pool for each in runners)
    )
    largest: int = max((shape[0] for shape in graphs.shapes), default=0)
    return min(fits, largest)


def _compute_capacity(prompt: Sequence[int]) -> int:
    return len(prompt) + MAX_DRAFT_LENGTH + 1


def _start_rows(runners: Sequence[Any], rows: Sequence[Sequence[int]], n_prompts: int) -> None:
    """Begin rows with all but the last token of their prompts; rows of one prompt share its pages."""
    model, *heads = runners
    for r, prompt in enumerate(rows):
        source = None if r < n_prompts else r % n_prompts
        model.start(r, prompt[:-1], _compute_capacity(prompt), source).finish(r)
        for head in heads:
            head.start(r, prompt, source).finish(r)


def _check_verify(graphs: VerifyGraphs, rows: Sequence[Sequence[int]], shape: tuple[int, int]) -> str | None:
    _, T = shape
    n_drafted = [(T - 1 - r) % T for r in range(len(rows))]
    drafts = [[row[t % len(row)] for t in range(n)] for row, n in zip(rows, n_drafted, strict=True)]
    last = [row[-1] for row in rows]
    expected = graphs.runner.forward(
        [[token, *draft] for token, draft in zip(last, drafts, strict=True)], n_last=[1] * len(rows)
    )
    logits = graphs.score(last, Proposal(drafts, [MODEL_EVIDENCE] * len(rows)))
    if logits is None:
        return None
    each = torch.arange(len(rows), device=logits.device)
    logprobs, tokens = logits[each, upload(n_drafted, logits.device)].float().log_softmax(dim=1).max(dim=1)
    return compare_top(expected, tokens, logprobs)


def _check_draft(graphs: DraftGraphs, rows: Sequence[Sequence[int]], shape: Shape) -> str | None:
    cache, wanted = graphs.runner.cache, _make_request(graphs, len(rows), shape, shape[1])
    feed = [[row[-1], *row[: r % 2]] for r, row in enumerate(rows)]
    lens = cache.lens
    drawn = graphs.draft(feed, shape[1], wanted)
    if drawn is None:
        return None
    first = [length + len(fed) for length, fed in zip(lens, feed, strict=True)]
    error = _compare_draws(graphs, DraftSteps(graphs.runner, feed), drawn[0], first, wanted)
    for r, length in enumerate(lens):
        cache.rewind(r, length)
    return error


def _check_block(graphs: BlockGraphs, rows: Sequence[Sequence[int]], shape: Shape) -> str | None:
    """Compare the tokens of a block after up to as many positions as the shape has that the head has not read."""
    runner, pending = graphs.runner, [row[-1] for row in rows]
    wanted = _make_request(graphs, len(rows), shape, runner.head.n_proposed)
    unread = [min(shape[1], n) for n in runner.read_by_target]
    before = [n - new for n, new in zip(runner.read_by_target, unread, strict=True)]
    for r, length in enumerate(before):
        runner.cache.rewind(r, length)
    proposal = graphs.propose(pending, unread, wanted)
    if proposal is None or proposal.device_tokens is None:
        return None
    for r, length in enumerate(before):
        runner.cache.rewind(r, length)
    first = [n + 1 for n in runner.read_by_target]
    steps = BlockSampler(runner, graphs.rule).run_blocks(pending, unread, wanted.lengths)
    return _compare_draws(graphs, steps, proposal.device_tokens, first, wanted)


def _make_request(graphs: SamplingGraphs[Any], n_rows: int, shape: Shape, length: int) -> DraftRequest:
    """Return a request of as many rows that run as this shape, with sampling parameters of all kinds that it serves."""
    kinds = _SAMPLING[2:] if shape[2] else _SAMPLING[:2] if graphs.rule.needs_q else _SAMPLING
    sampling = [kinds[(r + shape[1]) % len(kinds)] for r in range(n_rows)]
    return DraftRequest([length] * n_rows, range(n_rows), sampling)


def _compare_draws(
    graphs: SamplingGraphs[Any],
    steps: DraftingSteps,
    drawn: torch.Tensor,  # [n, k]
    first: Sequence[int],
    wanted: DraftRequest,
) -> str | None:
    """Return how far drawn tokens are from the best ones, by log-probability and noise, of forwards without graphs.

    Rounding may exchange two tokens that are nearly as good, and move one over the edge of a nucleus.
    """
    tokens, device, sampling = drawn.tolist(), drawn.device, wanted.sampling
    each_seed = upload([*wanted.seeds], device)
    is_random = upload([[params.temperature > 0] for params in sampling], device)
    for step in range(len(tokens[0])):
        logits = steps.logits(step, range(len(tokens)), [row[:step] for row in tokens])
        own = drawn[:, step, None]
        ids = torch.arange(logits.shape[1], device=device).expand(logits.shape)
        everything = steps.target_ids(Distribution(ids, logits.float().log_softmax(dim=1)))
        dist = steps.target_ids(to_distributions_nosync(logits, sampling)[0])
        position = upload([n + step for n in first], device)
        # What the logs of a filtered distribution are above the logs of the whole one.
        shift = dist.logp[:, :1] - _get_logp(everything, dist.ids[:, :1])
        logp = _get_logp(everything, own) + shift
        noise = [draw_gumbel(each_seed, position, graphs.rule.draft_role, each) * is_random for each in (dist.ids, own)]
        gap = (dist.logp + noise[0]).amax(dim=1) - (logp + noise[1])[:, 0]
        least = dist.logp.masked_fill(dist.logp.isneginf(), torch.inf).amin(dim=1)
        if error := describe_error(torch.maximum(gap, least - logp[:, 0]).max(), logits.dtype):
            return error
    return None


def _get_logp(dist: Distribution, ids: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of `ids` [N, 1], float32 [N, 1]; -inf for one that a row does not have."""
    return dist.logp.masked_fill(dist.ids != ids, -torch.inf).amax(dim=1, keepdim=True)
