"""The training data on disk, a file for each batch of prompts, and its recordings as padded batches for the training.

Their order depends on the seed and the epoch alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from decoding.models.tensor_files import save_tensors
from decoding.training.text_recorder import RecordedText

BATCH_TOKENS = 2048
"""Padded tokens of a batch."""
_SORTED_TOGETHER = 128
_HELD_OUT = 20
"""One document in every N is held out."""


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """What a shard holds besides its recordings."""

    n_prompts: int = 0
    n_tokens: int = 0  # generated
    n_documents: int = 0
    dropped_prompts: int = 0  # of `n_prompts`, shared words with an evaluated task
    dropped_texts: int = 0  # answers dropped for the same reason
    seconds: float = 0.0
    invented: list[str] = field(default_factory=list)  # instructions that the target wrote itself, for the next shard


@dataclass(frozen=True, slots=True)
class Document:
    """A recording on disk; only its tokens are in memory."""

    file: Any
    index: int
    tokens: torch.Tensor

    def read(self) -> RecordedText:
        """Return the recording with its states."""
        taps, outputs = (self.file.get_tensor(f"{self.index}.{name}") for name in ("taps", "outputs"))
        return RecordedText(self.tokens, taps, outputs)


class Shards:
    """The shards of one folder, numbered from 0 without a gap; `infos` says what each holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.infos: list[ShardInfo] = []
        while (path := self._get_path(len(self.infos))).is_file():
            with safe_open(path, "pt") as file:
                self.infos.append(ShardInfo(**json.loads(file.metadata()["info"])))

    @property
    def n_bytes(self) -> int:
        """The bytes of all shards."""
        return sum(path.stat().st_size for path in self.folder.glob("*.safetensors"))

    def add(self, recordings: Sequence[RecordedText], info: ShardInfo) -> None:
        """Store a shard after the others. A process killed meanwhile leaves none."""
        path = self._get_path(len(self.infos))
        tensors = {
            f"{i}.{name}": tensor.contiguous()
            for i, recording in enumerate(recordings)
            for name, tensor in (
                ("tokens", recording.tokens),
                ("taps", recording.taps),
                ("outputs", recording.outputs),
            )
        }
        partial = path.with_suffix(".partial")
        save_tensors(tensors, partial, {"info": json.dumps(asdict(info))})
        partial.replace(path)
        self.infos.append(info)

    def documents(self, number: int) -> Iterator[Document]:
        """Yield the documents of a shard; their states stay on disk until they are read."""
        file: Any = safe_open(self._get_path(number), "pt")
        n_documents = json.loads(file.metadata()["info"])["n_documents"]
        for i in range(n_documents):
            yield Document(file, i, file.get_tensor(f"{i}.tokens"))

    def _get_path(self, number: int) -> Path:
        return self.folder / f"shard-{number:05}.safetensors"


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """B documents of up to T tokens."""

    tokens: torch.Tensor  # int64 [B, T]
    taps: torch.Tensor  # [B, T, taps * H]
    outputs: torch.Tensor  # [B, T, H]
    known: torch.Tensor  # bool [B, T]: positions with outputs, whose next token the target has generated

    @classmethod
    def pad_recordings(cls, recordings: Sequence[RecordedText]) -> DocumentBatch:
        """Return recordings side by side, padded with zeros."""
        B, T = len(recordings), max(len(r.tokens) for r in recordings)
        tokens = torch.zeros(B, T, dtype=torch.int64)
        taps = recordings[0].taps.new_zeros(B, T, recordings[0].taps.shape[1])
        outputs = recordings[0].outputs.new_zeros(B, T, recordings[0].outputs.shape[1])
        known = torch.zeros(B, T, dtype=torch.bool)
        for b, recording in enumerate(recordings):
            n, g = len(recording.tokens), len(recording.outputs)
            tokens[b, :n] = recording.tokens
            taps[b, : n - 1] = recording.taps
            outputs[b, n - 1 - g : n - 1] = recording.outputs
            known[b, n - 1 - g : n - 1] = True
        return cls(tokens, taps, outputs, known)

    def to(self, device: torch.device) -> DocumentBatch:
        """Return the batch on a device."""
        return DocumentBatch(
            self.tokens.to(device), self.taps.to(device), self.outputs.to(device), self.known.to(device)
        )


class Documents:
    """The recordings of some shards, split into those to train on and those held out."""

    def __init__(self, shards: Shards, n_shards: int) -> None:
        every = [document for number in range(n_shards) for document in shards.documents(number)]
        self.held_out = every[::_HELD_OUT]
        self.train = [document for i, document in enumerate(every) if i % _HELD_OUT]

    def epoch(self, seed: int, number: int) -> Iterator[DocumentBatch]:
        """Yield the batches of an epoch; documents of one batch have about the same length."""
        order = random.Random(f"{seed}/{number}")
        documents = list(self.train)
        order.shuffle(documents)
        groups: list[list[Document]] = []
        for at in range(0, len(documents), _SORTED_TOGETHER):
            groups += _group_by_length(documents[at : at + _SORTED_TOGETHER])
        order.shuffle(groups)
        return (_read(group) for group in groups)

    def held_out_batches(self) -> Iterator[DocumentBatch]:
        """Yield the held-out documents, always the same batches."""
        return (_read(group) for group in _group_by_length(self.held_out))

    def n_batches(self) -> int:
        """Return about how many batches an epoch has."""
        return max(1, sum(len(document.tokens) for document in self.train) // BATCH_TOKENS)


def _read(group: Sequence[Document]) -> DocumentBatch:
    return DocumentBatch.pad_recordings([document.read() for document in group])


def _group_by_length(documents: Sequence[Document]) -> list[list[Document]]:
    groups: list[list[Document]] = []
    for document in sorted(documents, key=lambda one: len(one.tokens)):
        if groups and (len(groups[-1]) + 1) * len(document.tokens) <= BATCH_TOKENS:
            groups[-1].append(document)
        else:
            groups.append([document])
    return groups
