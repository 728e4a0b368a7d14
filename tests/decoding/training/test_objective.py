"""Training sees what drafting does: the same outputs at every step, and the target's own distributions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from decoding.attention.block_runner import BlockRunner
from decoding.attention.runner import ModelRunner
from decoding.attention.taps import TAPS
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import LoadedHead
from decoding.request import Request, SamplingParams
from decoding.training.documents import DocumentBatch
from decoding.training.initial import build_head, read_output_rows
from decoding.training.objective import BlockPosition, Objective
from decoding.training.text_recorder import RecordedText, TextRecorder
from decoding.training.trainer import Trainer

PROMPTS = ["def add(a, b):\n    return", "x = [", "class A:\n    def f(self):\n"]


@pytest.fixture(scope="module")
def recordings(target: LoadedModel) -> list[RecordedText]:
    requests = [
        Request(prompt, sampling=SamplingParams(0.8), seed=i, max_new_tokens=24) for i, prompt in enumerate(PROMPTS)
    ]
    return [recording for _, recording in TextRecorder(target, (0, 1, 1)).record(requests) if recording is not None]


def seen_by(
    head: LoadedHead, target: LoadedModel, batch: DocumentBatch, phase: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """The states of the blocks [M, K, H] of each text of a batch, and the trained logits [N, n_drafted] of all."""
    states: list[torch.Tensor] = []
    logits: list[torch.Tensor] = []
    network = head.head
    computed, chained = network.outputs, network.add_markov_logits
    monkeypatch.setattr(network, "outputs", lambda x: states.append(computed(x)) or states[-1])
    monkeypatch.setattr(network, "add_markov_logits", lambda *given: logits.append(chained(*given)) or logits[-1])
    embedding = target.model.get_input_embeddings()
    Objective(network, embedding, read_output_rows(target, network.token_ids)).compute_positions(batch, phase)
    monkeypatch.undo()
    return states, logits[0]


@torch.inference_mode()
def test_a_block_of_training_computes_what_a_block_of_drafting_does(
    target: LoadedModel, head: LoadedHead, recordings: list[RecordedText], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = recordings[0].tokens.tolist()
    network = build_head(target, (0, 1, 1), torch.arange(257), 0, n_layers=2)  # of all tokens: none is left out
    network.markov_head.markov_w2.weight.normal_(0, 0.1)
    everything = LoadedHead(network, head.embedding, head.record)
    runner = ModelRunner(target.model, target.vocab_size, 2, taps=(0, 1, 1))
    runner.start(0, text[:-1], 128).finish(0)
    exact = replace(
        recordings[0], taps=runner.cache.read_recorded(TAPS, [(0, 0, len(text) - 1)])
    )  # not rounded to bfloat16
    batch = DocumentBatch.pad_recordings([exact])
    first = int(batch.known[0].nonzero()[0, 0])
    drafting = BlockRunner(everything, runner)
    K, block = network.n_proposed, network.shape.block
    for anchor in (first, first + 3):
        (trained,), logits = seen_by(everything, target, batch, anchor, monkeypatch)
        drafting.cache.clear()
        drafting.cache.start(0, 128)
        features = drafting.read([anchor])
        layout = drafting.cache.begin([block])
        states = drafting.run_block(torch.tensor([text[anchor]]), features, layout, torch.tensor([anchor + block - 1]))
        at = (anchor - first) // 2
        torch.testing.assert_close(states[0], trained[at], atol=1e-4, rtol=1e-4)
        before = drafting.embed(torch.tensor([text[anchor : anchor + K]]))
        drawn = network.add_markov_logits(network.logits(states), states, before)
        torch.testing.assert_close(drawn[0], logits[at * K : (at + 1) * K], atol=1e-3, rtol=1e-3)


@torch.inference_mode()
def test_the_recorded_outputs_are_the_targets_distributions(
    target: LoadedModel, recordings: list[RecordedText]
) -> None:
    for recording in recordings:
        n = len(recording.tokens)
        before = target.model.config._attn_implementation
        target.model.set_attn_implementation("eager")
        expected = target.model(recording.tokens[None].long()).logits[0, n - 1 - len(recording.outputs) : n - 1, :257]
        target.model.set_attn_implementation(before)
        ours = F.linear(recording.outputs.float(), read_output_rows(target, torch.arange(257)))
        torch.testing.assert_close(ours.softmax(-1), expected.softmax(-1), atol=0.02, rtol=0.1)  # kept in bfloat16


@torch.inference_mode()
def test_padding_and_neighbours_do_not_change_a_document(
    target: LoadedModel, head: LoadedHead, recordings: list[RecordedText], monkeypatch: pytest.MonkeyPatch
) -> None:
    shortest = min(recordings, key=lambda one: len(one.tokens))
    alone, _ = seen_by(head, target, DocumentBatch.pad_recordings([shortest]), 0, monkeypatch)
    others = [one for one in recordings if one is not shortest]
    together, _ = seen_by(head, target, DocumentBatch.pad_recordings([shortest, *others]), 0, monkeypatch)
    assert len(alone[0]) < len(together[0])
    torch.testing.assert_close(alone[0], together[0][: len(alone[0])], atol=1e-4, rtol=1e-4)


def test_a_perfect_head_has_no_divergence(
    target: LoadedModel, head: LoadedHead, recordings: list[RecordedText]
) -> None:
    """Fed with the wanted logits in the place of its own, the loss is zero and every token matches."""
    rows = read_output_rows(target, head.head.token_ids)
    batch = DocumentBatch.pad_recordings(recordings)
    objective = Objective(head.head, target.model.get_input_embeddings(), rows)
    wanted = F.linear(batch.outputs[batch.known].float(), rows)
    (step,) = objective._compare(wanted, None, wanted.log_softmax(-1), torch.zeros(len(wanted)), [len(wanted)])
    assert float(step.divergence) == pytest.approx(0, abs=1e-6)
    assert step.n_matched == step.n == len(wanted)


def test_an_evaluations_divergence_is_the_mean_over_the_tokens_that_the_head_can_propose(tmp_path: Path) -> None:
    """A batch counts as its known positions do: not at all if it has none."""
    batches = [
        BlockPosition(torch.tensor(mean), torch.tensor(0.0), n_matched=1, n_known=n_known, n=10)
        for mean, n_known in ((2.0, 1), (6.0, 3), (0.0, 0))
    ]
    head: Any = nn.Module()
    head.fc, head.n_proposed = nn.Linear(1, 1), 1
    objective: Any = SimpleNamespace(compute_positions=lambda batch: [batch])
    documents: Any = SimpleNamespace(held_out_batches=lambda: batches)
    trainer = Trainer(head, objective, documents, 0, tmp_path / "checkpoint.pt")
    trainer.run()
    assert trainer.best.divergence == pytest.approx(5.0)
    assert trainer.best.match == [0.1]
