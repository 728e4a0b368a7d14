"""With every drafter, by either rule, eagerly or in graphs: three tokens in a row have the target's own joint law.

A real model over a vocabulary of four tokens, so that the law can be written down: 64 cells, compared by chi-square.
The prompt makes every combination of drafters meet in one round: some rows find a long match, the others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from decoding.acceptance.coupled import CoupledRule
from decoding.acceptance.distribution import Distribution
from decoding.acceptance.maximal import MaximalRule
from decoding.acceptance.registry import RULES
from decoding.acceptance.sampling import to_distribution
from decoding.attention import drafting
from decoding.attention.block_runner import BlockRunner
from decoding.config import EngineConfig
from decoding.drafters import registry
from decoding.engine import Engine
from decoding.models.dflash import DFlash
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import HeadRecord, prepare_head
from decoding.request import Request, SamplingParams
from decoding.training.initial import build_head
from kernels.rows import NO_TOKEN
from tests.decoding.conftest import GRAPHS_ATTENTION, disturbed, draw_as_graphs, with_own_attention
from tests.thorough import quick_first

pytestmark = pytest.mark.slow

V = 4
CHI2_LIMIT = 103.44  # 63 degrees of freedom, 0.001
N_SAMPLES = 1500
PER_SEED = 500
N_TOKENS = 3
# Bytes 33 to 36 are tokens 0 to 3. Whatever token comes first, the text then ends in four tokens seen before or not.
PROMPT = '!"#$!"#"!"##!"#!$#"!!"#'
SAMPLING = SamplingParams(temperature=1.0, top_p=1.0)
DRAFTERS = [form.replace(registry.MODEL, "./model") for form in registry.list_forms()]
# Under the coupled rule the drafts decide nothing: every drafter's texts are compared with plain decoding, one by one.
LAWS = [(drafter, "maximal", False) for drafter in ("ngram", "./model")]
# In graphs those whose drafts are drawn there, and (with the thorough ones) one that only verifies there.
IN_GRAPHS = ("none", "./model", "ngram+trained")
LAWS += [("none", "coupled", False), *((drafter, "maximal", True) for drafter in IN_GRAPHS[1:])]


def with_the_rest(quick: list[tuple[Any, ...]], every: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The quick combinations, and the others for a thorough run."""
    return [*quick, *(pytest.param(*one, marks=pytest.mark.thorough) for one in every if one not in quick)]


def tiny() -> PreTrainedModel:
    torch.manual_seed(5)
    config = Qwen2Config(
        vocab_size=260,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=128,
        tie_word_embeddings=False,
    )
    model = Qwen2ForCausalLM(config).eval()
    with torch.no_grad():
        model.lm_head.weight.normal_(0, 0.25)
    return model


@pytest.fixture(scope="module")
def pair(loaded: Callable[[PreTrainedModel], LoadedModel]) -> tuple[LoadedModel, LoadedModel]:
    target, draft = loaded(tiny()), loaded(disturbed(tiny(), 0.6))
    return replace(target, vocab_size=V), replace(draft, vocab_size=V)


@pytest.fixture
def on_path(pair: tuple[LoadedModel, LoadedModel], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """Set up rounds in graphs: attention that takes lengths from tensors, and small buffers."""
    before = pair[0].model.config._attn_implementation

    def choose(graphs: bool) -> None:
        if graphs:
            for loaded in pair:
                loaded.model.set_attn_implementation(GRAPHS_ATTENTION)
            # Triton's interpreter takes a second for what a thousand samples need; tests/kernels shows they agree.
            for rule in (CoupledRule, MaximalRule):
                monkeypatch.setattr(rule, "accept_in_kernel", rule.accept)
            draw_as_graphs(monkeypatch)

    yield choose
    for loaded in pair:
        loaded.model.set_attn_implementation(before)


def law(target: LoadedModel, sampling: SamplingParams) -> torch.Tensor:
    """The target's own joint law of N_TOKENS tokens, from forwards over all texts without a cache."""
    prompt = target.tokenizer(PROMPT)["input_ids"]
    assert max(prompt) < V
    texts = torch.tensor(list(product(range(V), repeat=N_TOKENS)))
    with with_own_attention(target) as model, torch.inference_mode():
        ids = torch.cat([torch.tensor(prompt).expand(len(texts), -1), texts], dim=1).to(target.device)
        logits = model(ids).logits[..., :V].cpu()
    joint = torch.ones(len(texts), dtype=torch.float64)
    for i in range(N_TOKENS):
        here = to_distribution(logits[:, len(prompt) - 1 + i], sampling)
        joint *= here.get_probabilities(texts[:, i : i + 1])[:, 0].double()
    return joint


def make_engine(config: EngineConfig, target: LoadedModel, draft: LoadedModel, *, graphs: bool) -> Engine:
    """An engine with what its drafter needs; the trained head proposes two of the four tokens."""
    if registry.TRAINED not in config.drafter:
        return Engine(config, target, draft if "model" in config.drafter else None, graphs=graphs)
    head = build_head(target, (0, 0, 0), torch.tensor([1, 3]), seed=0)
    with torch.no_grad():
        head.lm_head.weight.mul_(3)  # nowhere near the target's own law
        head.markov_head.markov_w2.weight.normal_(0, 1)  # the second token depends on the first
    record = HeadRecord("tiny", target.sha256, "1" * 64, "trained", "2026-01-01", 1, 1, 2, [0, 0, 0])
    return Engine(config, target, None, prepare_head(head.eval().requires_grad_(False), target, record), graphs=graphs)


def chi2(
    pair: tuple[LoadedModel, LoadedModel], *, graphs: bool, samplings: Sequence[SamplingParams], **settings: Any
) -> list[float]:
    """The statistic of each request of a batch that share it equally, with sampling parameters of their own."""
    target, draft = pair
    expected = [law(target, sampling) * N_SAMPLES for sampling in samplings]
    if graphs:
        target.model.set_attn_implementation(GRAPHS_ATTENTION)
    config = EngineConfig(target="tiny", draft_length="fixed:2", max_batch=N_SAMPLES, **settings)
    engine = make_engine(config, target, draft, graphs=graphs)
    observed = [torch.zeros(V**N_TOKENS, dtype=torch.float64) for _ in samplings]
    n = PER_SEED // len(samplings)
    requests = [
        Request(PROMPT, n=n, sampling=sampling, seed=seed, max_new_tokens=N_TOKENS + 1)
        for seed in range(N_SAMPLES // n)
        for sampling in samplings
    ]
    for position, outcome in engine.generate_many(requests):
        tokens = torch.tensor([s.token_ids[:N_TOKENS] for s in outcome.samples])
        cells = tokens @ torch.tensor([V**i for i in reversed(range(N_TOKENS))])
        observed[position % len(samplings)] += torch.bincount(cells, minlength=V**N_TOKENS)
    for seen, wanted in zip(observed, expected, strict=True):
        assert not seen[wanted == 0].any()
    return [
        float(((seen - wanted) ** 2 / wanted)[wanted > 0].sum())
        for seen, wanted in zip(observed, expected, strict=True)
    ]


@pytest.mark.parametrize(("drafter", "rule", "graphs"), with_the_rest(LAWS, product(DRAFTERS, RULES, (False, True))))
def test_the_law_of_the_text_is_the_targets(drafter: str, rule: str, graphs: bool, pair: Any, on_path: Any) -> None:
    on_path(graphs)
    (statistic,) = chi2(pair, graphs=graphs, samplings=[SAMPLING], drafter=drafter, acceptance=rule)
    assert statistic < CHI2_LIMIT


COUPLED = [*((drafter, False) for drafter in DRAFTERS), *((drafter, True) for drafter in IN_GRAPHS)]


@pytest.mark.parametrize(("drafter", "graphs"), with_the_rest(COUPLED, product(DRAFTERS, (False, True))))
def test_under_the_coupled_rule_no_drafter_changes_a_text_whose_law_was_tested(
    drafter: str, graphs: bool, pair: Any, on_path: Any
) -> None:
    on_path(graphs)
    texts = []
    for each in ("none", drafter):
        config = EngineConfig(target="tiny", draft_length="fixed:2", max_batch=60, drafter=each)
        done = make_engine(config, *pair, graphs=graphs).generate(
            Request(PROMPT, n=60, sampling=SAMPLING, max_new_tokens=2 * N_TOKENS)
        )
        texts.append([s.token_ids for s in done.samples])
    assert texts[0] == texts[1]


def test_a_head_that_gives_its_own_ids_for_the_targets_is_found_out(
    pair: Any, on_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The positive control: q that is not what the draft was drawn from makes the maximal rule biased."""
    on_path(False)
    monkeypatch.setattr(BlockRunner, "target_ids", lambda self, q: replace(q, ids=self._ids[1 - q.ids]))
    sample = Distribution.sample
    monkeypatch.setattr(
        Distribution,
        "sample",
        lambda self, *where: 4 - sample(self, *where) if self.width == 2 else sample(self, *where),
    )
    (statistic,) = chi2(pair, graphs=False, samplings=[SAMPLING], drafter="trained", acceptance="maximal")
    assert statistic > CHI2_LIMIT


@pytest.mark.thorough
def test_a_chain_whose_q_forgets_the_token_before_is_found_out(
    pair: Any, on_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The positive control of the Markov head: drawn given the token before, and said to be drawn without."""
    on_path(False)
    chained = DFlash.add_markov_logits
    given: list[torch.Tensor] = []

    def keep(head: DFlash, logits: torch.Tensor, *rest: Any) -> torch.Tensor:
        given.append(logits)
        return chained(head, logits, *rest)

    monkeypatch.setattr(DFlash, "add_markov_logits", keep)
    target_ids = BlockRunner.target_ids

    def without(runner: BlockRunner, q: Distribution) -> Distribution:
        assert (q.ids.cpu() == torch.arange(2)).all()
        told.append((sampled := target_ids(runner, q), target_ids(runner, replace(q, logp=given[-1].log_softmax(-1)))))
        return sampled

    told: list[tuple[Distribution, Distribution]] = []
    monkeypatch.setattr(BlockRunner, "target_ids", without)
    joined = drafting.join_distributions
    monkeypatch.setattr(
        drafting,
        "join_distributions",
        lambda parts, n: joined([(at, next(b for a, b in told if a is q)) for at, q in parts], n),
    )
    (statistic,) = chi2(pair, graphs=False, samplings=[SAMPLING], drafter="trained", acceptance="maximal")
    assert statistic > CHI2_LIMIT


MIXED = [("maximal", True)]  # the coupled rule's: test_engine.py and test_graphs.py, text by text


@pytest.mark.parametrize(("rule", "graphs"), with_the_rest(MIXED, product(RULES, (False, True))))
def test_requests_with_different_sampling_in_one_batch_follow_each_its_own_law(
    rule: str, graphs: bool, pair: Any, on_path: Any
) -> None:
    on_path(graphs)
    samplings = [SAMPLING, SamplingParams(0.7, top_p=0.9)]
    statistics = chi2(pair, graphs=graphs, samplings=samplings, drafter="sibling+./model", acceptance=rule)
    assert max(statistics) < CHI2_LIMIT


@pytest.mark.parametrize("graphs", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["eager", "graphs"])
@pytest.mark.parametrize(
    "drafter", quick_first([drafter for drafter in DRAFTERS if drafter not in ("none", "ngram", "sibling")], IN_GRAPHS)
)
def test_what_a_draft_was_drawn_from_sums_to_one(
    drafter: str, graphs: bool, pair: Any, on_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(graphs)
    sums: list[torch.Tensor] = []
    accept_drafts = MaximalRule.accept

    def spy(rule: MaximalRule, p: Any, where: Any, draft: torch.Tensor, seeds: Any, q: Distribution | None) -> Any:
        if q is not None:
            used = (draft != NO_TOKEN).flatten()
            sums.append(q.logp.double().exp().sum(dim=1)[used])
            assert (q.get_probabilities(draft.reshape(-1, 1))[used] > 0).all()
            assert all(len(set(ids)) == len(ids) for ids in q.ids[used].tolist())
        return accept_drafts(rule, p, where, draft, seeds, q)

    for path in ("accept", "accept_in_kernel"):
        monkeypatch.setattr(MaximalRule, path, spy)
    config = EngineConfig(target="tiny", draft_length="fixed:3", max_batch=40, drafter=drafter, acceptance="maximal")
    engine = make_engine(config, *pair, graphs=graphs)
    for sampling in (SAMPLING, SamplingParams(0.8, top_p=0.9)):
        engine.generate(Request(PROMPT, n=40, sampling=sampling, max_new_tokens=24))
    assert torch.allclose(torch.cat(sums).cpu(), torch.ones((), dtype=torch.float64), atol=1e-5)
