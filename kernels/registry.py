"""The attention backends, each declared once with its capabilities. Plain data: importing this loads no torch.

To add a backend, write a file with a function that takes the arguments of `reference.verify_attention`, and add one
line to `BACKENDS`. The values of `EngineConfig.attention`, the registration with transformers, the check when a model
is loaded, `bassline bench kernels` and the tests all read this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    import torch

    from kernels.rows import RaggedRows


class VerifyAttention(Protocol):
    """Attention of the new tokens of ragged rows over their rows' keys and values."""

    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        rows: RaggedRows,
        scale: float,
        window: int | None = None,
        *,
        softcap: float | None = None,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return [N, Hq, D] for `q` [N, Hq, D], the pools `k` and `v` [P, Hkv, page_size, D], `sinks` [Hq]."""


class Scatter(Protocol):
    """Writes the keys and values of packed tokens to their slots of a pool."""

    def __call__(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        new_keys: torch.Tensor,
        new_values: torch.Tensor,
        slot: torch.Tensor,
    ) -> None:
        """Write `new_keys` and `new_values` [N, Hkv, D] to slots [N] of the pools [P, Hkv, page_size, D]."""


@dataclass(frozen=True, slots=True)
class AttentionBackend:
    """One way to compute attention, and what it can do."""

    name: str
    # `module:name` of a `VerifyAttention`; None for backends that work on padded rows in PyTorch
    function: str | None = None
    # `module:name` of a `Scatter`; None if PyTorch writes keys and values to the cache
    scatter: str | None = None
    needs_triton: bool = False  # needs a GPU or Triton's interpreter, and is compared with its reference before use
    needs_compiler: bool = False  # a C compiler, or what one has left in the cache
    # launches depend on shapes alone, so that a captured CUDA graph can be replayed while row lengths change
    supports_graphs: bool = False
    # most new tokens of a row; PyTorch's attention, which is faster for many queries, takes more. None: no limit
    max_tokens: int | None = None

    def supports(self, rows: RaggedRows) -> bool:
        """Return whether `function` computes the attention of such rows."""
        return self.function is not None and (self.max_tokens is None or rows.max_count <= self.max_tokens)

    def load(self) -> VerifyAttention:
        """Import `function`. Raises ValueError for a backend without one."""
        if self.function is None:
            raise ValueError(f"attention backend {self.name} has no function to load")
        return cast("VerifyAttention", _import(self.function))

    def load_scatter(self) -> Scatter | None:
        """Import `scatter`; None for a backend whose cache PyTorch writes."""
        return None if self.scatter is None else cast("Scatter", _import(self.scatter))


def _import(path: str) -> object:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


_MAX_ROUND = 33  # a draft and one more token
_TRITON_SCATTER = "kernels.kv_scatter:write_kv"
BACKENDS = {
    backend.name: backend
    for backend in (
        AttentionBackend("sdpa"),
        AttentionBackend(
            "native",
            "kernels.native_attention:attend_native",
            "kernels.native_attention:write_kv",
            needs_compiler=True,
        ),
        AttentionBackend(
            "ragged",
            "kernels.verify_attention:attend_ragged",
            _TRITON_SCATTER,
            needs_triton=True,
            supports_graphs=True,
            max_tokens=_MAX_ROUND,
        ),
        AttentionBackend(
            "pad", "kernels.verify_attention:attend_padded", _TRITON_SCATTER, needs_triton=True, max_tokens=_MAX_ROUND
        ),
        AttentionBackend(
            "split", "kernels.verify_attention:attend_split", _TRITON_SCATTER, needs_triton=True, max_tokens=_MAX_ROUND
        ),
        AttentionBackend("reference", "kernels.reference:verify_attention"),
    )
}
