"""Whoever drafts, by either rule, eagerly or in graphs: three tokens in a row have the target's own joint law.

A real model over a vocabulary of four tokens, so that the law can be written down: 64 cells, compared by chi-square.
The prompt makes every combination of drafters meet in one round: some rows find a long match, the others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from decoding.acceptance import rules
from decoding.acceptance.rules import NO_TOKEN, Positions
from decoding.acceptance.sampling import Distribution, shape
from decoding.attention import graphed_models
from decoding.attention.backends import NAMES
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models.loaded import LoadedModel
from decoding.request import Request, SamplingParams
from kernels import accept
from tests.decoding.conftest import disturbed

V = 4
CHI2_LIMIT = 103.44  # 63 degrees of freedom, 0.001
N_SAMPLES = {"coupled": 2000, "maximal": 4000}
AT_ONCE = 500
N_TOKENS = 3
# Bytes 33 to 36 are tokens 0 to 3. Whatever token comes first, the text then ends in four tokens seen before or not.
PROMPT = '!"#$!"#"!"##!"#!$#"!!"#'
SAMPLING = SamplingParams(temperature=1.0, top_p=1.0)
DRAFTERS = ["none", "ngram", "sibling", "model", "ngram+model", "sibling+model"]


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
            monkeypatch.setattr(graphed_models, "_CAPACITY_STEP", 64)
            for loaded in pair:
                loaded.model.set_attn_implementation(NAMES["reference"])
            # Triton's interpreter takes a second for what a thousand samples need; test_accept.py shows they agree.
            monkeypatch.setattr(accept, "coupled", coupled)
            monkeypatch.setattr(accept, "maximal", maximal)

    yield choose
    for loaded in pair:
        loaded.model.set_attn_implementation(before)


def coupled(ids: Any, logp: Any, at: Any, position: Any, draft: Any, keys: Any, role: int) -> Any:
    S, T = at.shape
    tokens = Distribution(ids, logp).rows(at.flatten()).sample(keys.repeat_interleave(T), position.flatten(), role)
    stands = (draft == tokens.view(S, T)[:, :-1]).long()
    return stands.cumprod(dim=1).sum(dim=1), tokens.view(S, T)


def maximal(ids: Any, logp: Any, at: Any, position: Any, draft: Any, keys: Any, q: Any, *roles: int) -> Any:
    where = Positions(at, position)
    return rules.maximal(Distribution(ids, logp), where, draft, keys, q and Distribution(*q))


def law(target: LoadedModel, sampling: SamplingParams) -> torch.Tensor:
    """The target's own joint law of N_TOKENS tokens, from forwards over all texts without a cache."""
    prompt = target.tokenizer(PROMPT)["input_ids"]
    assert max(prompt) < V
    texts = torch.tensor(list(product(range(V), repeat=N_TOKENS)))
    target.model.set_attn_implementation("eager")
    with torch.inference_mode():
        logits = target.model(torch.cat([torch.tensor(prompt).expand(len(texts), -1), texts], dim=1)).logits[..., :V]
    target.model.set_attn_implementation("ragged_cache")
    joint = torch.ones(len(texts), dtype=torch.float64)
    for i in range(N_TOKENS):
        here = shape(logits[:, len(prompt) - 1 + i], sampling)
        joint *= here.prob_of(texts[:, i : i + 1])[:, 0].double()
    return joint


def chi2(pair: tuple[LoadedModel, LoadedModel], *, graphs: bool, sampling: SamplingParams, **settings: Any) -> float:
    target, draft = pair
    n_samples = N_SAMPLES[settings["acceptance"]]
    expected = law(target, sampling) * n_samples
    if graphs:
        target.model.set_attn_implementation(NAMES["reference"])
    config = EngineConfig(target="tiny", draft_length="fixed:2", max_batch=AT_ONCE, **settings)
    engine = Engine(config, target, draft if "model" in config.drafter else None, graphs=graphs)
    observed = torch.zeros(V**N_TOKENS, dtype=torch.float64)
    for seed in range(n_samples // AT_ONCE):
        request = Request(PROMPT, n=AT_ONCE, sampling=sampling, seed=seed, max_new_tokens=N_TOKENS + 1)
        tokens = torch.tensor([s.token_ids[:N_TOKENS] for s in engine.generate(request).samples])
        observed += torch.bincount(
            tokens @ torch.tensor([V**i for i in reversed(range(N_TOKENS))]), minlength=V**N_TOKENS
        )
    return float(((observed - expected) ** 2 / expected)[expected > 0].sum())


@pytest.mark.parametrize("graphs", [False, True], ids=["eager", "graphs"])
@pytest.mark.parametrize("rule", ["coupled", "maximal"])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_the_law_of_the_text_is_the_targets(drafter: str, rule: str, graphs: bool, pair: Any, on_path: Any) -> None:
    on_path(graphs)
    assert chi2(pair, graphs=graphs, sampling=SAMPLING, drafter=drafter, acceptance=rule) < CHI2_LIMIT


@pytest.mark.parametrize("graphs", [False, True], ids=["eager", "graphs"])
@pytest.mark.parametrize("drafter", ["model", "ngram+model", "sibling+model"])
def test_what_a_draft_was_drawn_from_sums_to_one(
    drafter: str, graphs: bool, pair: Any, on_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(graphs)
    sums: list[torch.Tensor] = []
    rule = rules.maximal

    def spy(target: Any, where: Any, draft: torch.Tensor, keys: Any, q: Distribution | None) -> Any:
        if q is not None:
            used = (draft != NO_TOKEN).flatten()
            sums.append(q.logp.double().exp().sum(dim=1)[used])
            assert (q.prob_of(draft.reshape(-1, 1))[used] > 0).all()
            assert all(len(set(ids)) == len(ids) for ids in q.ids[used].tolist())
        return rule(target, where, draft, keys, q)

    monkeypatch.setattr(rules, "maximal", spy)
    config = EngineConfig(target="tiny", draft_length="goodput", max_batch=40, drafter=drafter, acceptance="maximal")
    engine = Engine(config, *pair, graphs=graphs)
    for sampling in (SAMPLING, SamplingParams(0.8, top_p=0.9)):
        engine.generate(Request(PROMPT, n=40, sampling=sampling, max_new_tokens=24))
    assert torch.allclose(torch.cat(sums), torch.ones((), dtype=torch.float64), atol=1e-5)
