"""A head drafts at most a block a row, reads what others drafted meanwhile, and says how sure it is before it draws."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from decoding.acceptance.registry import make_rule
from decoding.attention.block_runner import BlockRunner
from decoding.attention.drafting import BlockSampler
from decoding.attention.runner import ModelRunner
from decoding.engine import Engine
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import LoadedHead
from decoding.request import Request, SamplingParams
from decoding.state.proposal import Proposal
from decoding.state.row import DraftRequest
from tests.thorough import thorough

TEXTS = [list(range(40, 60)), list(range(20, 27))]
WARM = SamplingParams(1.0, top_p=1.0)


def drafting(target: LoadedModel, head: LoadedHead, max_tokens: tuple[int, int] = (64, 64)) -> BlockSampler:
    """The head beside its target, which has read all of both texts but their last tokens.

    `max_tokens` are the tokens that the rows may get.
    """
    runner = ModelRunner(target.model, target.vocab_size, 2, taps=head.head.shape.taps)
    drafts = BlockSampler(BlockRunner(head, runner), make_rule("maximal"))
    for slot, (text, capacity) in enumerate(zip(TEXTS, max_tokens, strict=True)):
        runner.start(slot, text[:-1], capacity).finish(slot)
        drafts.runner.start(slot, text, None).finish(slot)
    return drafts


def draft(drafts: BlockSampler, lengths: list[int], seed: int = 0) -> Proposal:
    return drafts.draft([text[-1] for text in TEXTS], DraftRequest(lengths, [seed, seed + 1], [WARM, WARM]))


def test_rows_draft_as_alone_whatever_others_do(target: LoadedModel, head: LoadedHead) -> None:
    both = draft(drafting(target, head), [5, 3])
    for r, length in enumerate([5, 3]):
        alone = draft(drafting(target, head), [length if i == r else 0 for i in range(2)])
        assert alone.tokens[r] == both.tokens[r]
        assert alone.tokens[1 - r] == []
        assert len(both.tokens[r]) == length


@pytest.mark.parametrize("max_tokens", [(64, 400), (400, 64)])
def test_rows_that_may_become_longer_than_others_draft_as_beside_their_like(
    max_tokens: tuple[int, int], target: LoadedModel, head: LoadedHead
) -> None:
    one, several = (draft(drafting(target, head, each), [5, 3]) for each in ((64, 64), max_tokens))
    assert several.tokens == one.tokens
    assert several.confidence == one.confidence
    assert one.q is not None
    assert several.q is not None
    assert torch.equal(several.q.ids, one.q.ids)
    assert torch.equal(several.q.logp, one.q.logp)


def test_what_was_not_read_while_others_drafted_is_read_later(target: LoadedModel, head: LoadedHead) -> None:
    late = drafting(target, head)
    draft(late, [5, 0])
    assert late.cache.lens == [len(TEXTS[0]) - 1, len(TEXTS[1]) - 2]
    assert draft(late, [0, 5]).tokens[1] == draft(drafting(target, head), [0, 5]).tokens[1]


@pytest.mark.parametrize("lengths", [[5, 0], [5, 3]], ids=["one row", "all rows"])
def test_a_draft_whose_verify_failed_is_made_again(lengths: list[int], target: LoadedModel, head: LoadedHead) -> None:
    drafts = drafting(target, head)
    draft(drafts, lengths)  # then memory runs out for another row, and the round is made again
    assert draft(drafts, [5, 3]).tokens == draft(drafting(target, head), [5, 3]).tokens


def test_the_confidence_does_not_depend_on_what_is_drawn(target: LoadedModel, head: LoadedHead) -> None:
    """Otherwise it would decide by a token's own fate whether to verify it, and bias the maximal rule."""
    one, other = (draft(drafting(target, head), [5, 3], seed) for seed in (0, 5))
    assert one.tokens != other.tokens
    assert one.confidence == other.confidence
    assert [len(row) for row in one.confidence or ()] == [5, 3]


@pytest.mark.parametrize("length", [thorough("fixed:12"), thorough("bass"), "goodput"])
def test_no_row_is_asked_for_more_than_a_block(length: str, engine: Callable[..., Engine], head: LoadedHead) -> None:
    made = engine(drafter="trained", draft_length=length)
    done = made.generate(Request("def f(x):\n", n=2, max_new_tokens=30))
    drafted = [n for r in done.rounds for n in r.drafted]
    assert 0 < max(drafted) <= head.head.n_proposed
    plain = engine().generate(Request("def f(x):\n", n=2, max_new_tokens=30))
    assert [s.token_ids for s in done.samples] == [s.token_ids for s in plain.samples]
