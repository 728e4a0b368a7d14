"""The training data on disk: one file for each batch of prompts, whole or not there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from decoding.models.tensor_files import save_tensors
from decoding.training.text_recorder import RecordedText


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
