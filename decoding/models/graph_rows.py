"""What a graph that computes a whole forward is told about the rows of its batch. Imports no ONNX."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class GraphRows:
    """Which tokens belong together: N packed tokens of R rows with at most T each, over caches of S slots."""

    gather: torch.Tensor  # int64 [R, T]: packed index of each row's t-th token; short rows repeat one
    scatter: torch.Tensor  # int64 [N]: index of each token in the flattened [R * T]
    write: torch.Tensor  # int64 [N * Hkv, 3]: the row, head and slot that each token's keys and values go to
    masks: dict[int | None, torch.Tensor]  # by window, [R, 1, T * group, S]: what is added to the scores
