"""Training sees what drafting does: the same outputs at every step, and the target's own distributions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from decoding.attention.head_runner import HeadRunner
from decoding.attention.runner import ModelRunner
from decoding.attention.taps import TAPS
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import LoadedHead
from decoding.request import Request, SamplingParams
from decoding.training.collect import record
from decoding.training.documents import DocumentBatch
from decoding.training.initial import new_head, output_rows
from decoding.training.objective import N_STEPS, Objective
from decoding.training.recorder import Recording

PROMPTS = ["def add(a, b):\n    return", "x = [", "class A:\n    def f(self):\n"]


@pytest.fixture(scope="module")
def recordings(target: LoadedModel) -> list[Recording]:
    requests = [
        Request(prompt, sampling=SamplingParams(0.8), seed=i, max_new_tokens=24) for i, prompt in enumerate(PROMPTS)
    ]
    return [recording for _, recording in record(target, (0, 1, 1), requests) if recording is not None]


def logits_of(
    head: LoadedHead, target: LoadedModel, batch: DocumentBatch, monkeypatch: pytest.MonkeyPatch
) -> list[torch.Tensor]:
    """The logits of each step over a batch, at the positions that are trained on."""
    seen: list[torch.Tensor] = []
    network = head.head
    computed = network.logits
    monkeypatch.setattr(network, "logits", lambda output: seen.append(computed(output)) or seen[-1])
    embedding = target.model.get_input_embeddings()
    Objective(network, embedding, output_rows(target, network.token_ids)).steps(batch)
    monkeypatch.undo()
    return seen


@torch.inference_mode()
def test_a_step_of_training_computes_what_a_step_of_drafting_does(
    target: LoadedModel, head: LoadedHead, recordings: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = recordings[0].tokens.tolist()
    # Of all tokens, so that no position is left out.
    everything = LoadedHead(new_head(target, (0, 1, 1), torch.arange(257), 0), head.embedding, head.record)
    runner = ModelRunner(target.model, target.vocab_size, 2, taps=(0, 1, 1))
    runner.start(0, text, 128).finish()
    exact = replace(recordings[0], taps=runner.cache.states(TAPS, 0)[: len(text) - 1])  # not rounded to bfloat16
    batch = DocumentBatch.of([exact])
    trained = logits_of(everything, target, batch, monkeypatch)
    first = int(batch.known[0].nonzero()[0, 0])
    drafting = HeadRunner(everything, runner)
    for t in (first - 1, first + 3, len(text) - 6):
        drafting.cache.clear()
        drafting.cache.start(0, 128)
        output = drafting.read([text[1 : t + 2]], 0)
        for j in range(N_STEPS):
            expected = trained[j][t - (first - 1 - j)]
            torch.testing.assert_close(everything.head.logits(output)[0], expected, atol=1e-4, rtol=1e-4)
            output = drafting.step([[text[t + 2 + j]]], everything.head.next_features(output))


@torch.inference_mode()
def test_the_recorded_outputs_are_the_targets_distributions(target: LoadedModel, recordings: list[Recording]) -> None:
    for recording in recordings:
        n = len(recording.tokens)
        before = target.model.config._attn_implementation
        target.model.set_attn_implementation("eager")
        expected = target.model(recording.tokens[None].long()).logits[0, n - 1 - len(recording.outputs) : n - 1, :257]
        target.model.set_attn_implementation(before)
        ours = F.linear(recording.outputs.float(), output_rows(target, torch.arange(257)))
        torch.testing.assert_close(ours.softmax(-1), expected.softmax(-1), atol=0.02, rtol=0.1)  # kept in bfloat16


@torch.inference_mode()
def test_padding_and_neighbours_do_not_change_a_document(
    target: LoadedModel, head: LoadedHead, recordings: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    shortest = min(recordings, key=lambda one: len(one.tokens))
    alone = logits_of(head, target, DocumentBatch.of([shortest]), monkeypatch)
    others = [one for one in recordings if one is not shortest]
    together = logits_of(head, target, DocumentBatch.of([shortest, *others]), monkeypatch)
    for a, b in zip(alone, together, strict=True):
        torch.testing.assert_close(a, b[: len(a)], atol=1e-4, rtol=1e-4)


def test_a_perfect_head_has_no_divergence(target: LoadedModel, head: LoadedHead, recordings: list[Recording]) -> None:
    """Fed with the wanted logits in the place of its own, the loss is zero and every token matches."""
    rows = output_rows(target, head.head.token_ids)
    batch = DocumentBatch.of(recordings)
    objective = Objective(head.head, target.model.get_input_embeddings(), rows)
    wanted = F.linear(batch.outputs[batch.known].float(), rows)
    step = objective._step(wanted, wanted.log_softmax(-1), n_all=len(wanted))
    assert float(step.divergence) == pytest.approx(0, abs=1e-6)
    assert step.n_matched == step.n == len(wanted)
