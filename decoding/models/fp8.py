"""Linear layers of 8-bit floating-point numbers (E4M3) for a GPU: half the bytes of bf16 to read.

Weights have one scale for each output channel, chosen once. A round has few tokens and waits for the weights: they are
dequantized as they are read, and activations stay as they are. A prompt has many and waits for the products: they run
on the tensor cores of Ada, Hopper and later GPUs in 8 bits, where each token is quantized with a scale of its own.

The two forms give different numbers, so what decides between them must not depend on the batch. It is what the tokens
are for, and not how many there are: a draft that is verified in a large batch has the form of plain decoding of one
row. So speculation changes no text, and neither does what is known of a prompt already.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from decoding.models.errors import ModelError
from decoding.models.packing import PackedLayer, replace_linears
from kernels.byte_matmul import byte_matmul
from kernels.check import check_bytes
from kernels.quantize_rows import quantize_rows

# The tensor cores take blocks of this many numbers.
_MULTIPLE = 16
# The first GPUs (Ada) that multiply this format.
_CAPABILITY = (8, 9)
# The tokens of a round, of which 8-bit weights must be faster.
_N_TOKENS = 8
_REPEATS = 9
# More than any GPU has of cache.
_COLD_BYTES = 2**28


class _Phase(threading.local):
    is_prompt = False


_phase = _Phase()


@contextmanager
def read_prompt() -> Iterator[None]:
    """Let 8-bit products quantize their activations too, on the calling thread, as long as the context lasts."""
    _phase.is_prompt = True
    try:
        yield
    finally:
        _phase.is_prompt = False


class Fp8Linear(PackedLayer):
    """Computes about what `nn.Linear` computes, with weights of 8 bits."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self._weight, scale = quantize_rows(layer.weight.detach())  # [out, in]
        self._scale = scale.flatten()  # [out]
        self._bias = None if layer.bias is None else layer.bias.detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x @ weight.T + bias, [..., N, out], for x [..., N, in]."""
        tokens = x.flatten(0, -2).contiguous()
        multiply = self._multiply_bytes if _phase.is_prompt else self._multiply
        return multiply(tokens).view(*x.shape[:-1], -1)

    def _multiply(self, x: torch.Tensor) -> torch.Tensor:
        return byte_matmul(x, self._weight, self._scale, self._bias)

    def _multiply_bytes(self, x: torch.Tensor) -> torch.Tensor:
        values, scale = quantize_rows(x)
        out: torch.Tensor = torch._scaled_mm(
            values, self._weight.T, scale_a=scale, scale_b=self._scale[None], out_dtype=torch.bfloat16
        )
        return out.to(x.dtype) if self._bias is None else out.to(x.dtype) + self._bias


def quantize(model: nn.Module) -> None:
    """Replace the linear layers of a model whose sizes the tensor cores take; others stay dense.

    Raises ModelError where a kernel is wrong, or on a GPU where the largest product is no faster than the dense one.
    """
    weight = next(model.parameters())
    if failure := check_bytes(weight.dtype, weight.device):
        raise ModelError(f"weights fp8 need kernels that do not work here ({failure}): give weights dense.")
    layers = [layer for layer in model.modules() if type(layer) is nn.Linear and _has_blocks(layer)]
    if layers and weight.device.type == "cuda":
        require_gain(max(layers, key=lambda layer: layer.weight.numel()), _time_product)
    replace_linears(model, lambda layer: Fp8Linear(layer) if _has_blocks(layer) else None)


def require_gain(layer: nn.Linear, time: Callable[[nn.Module, torch.Tensor], float]) -> None:
    """Raise ModelError unless a round's product with the weights of a layer is faster in 8 bits.

    `time` returns the microseconds that a layer takes for an input.
    """
    weight = layer.weight
    x = torch.randn(_N_TOKENS, layer.in_features, dtype=weight.dtype, device=weight.device)
    ours, dense = time(Fp8Linear(layer), x), time(layer, x)
    if ours >= dense:
        raise ModelError(
            f"weights fp8 are no faster than {str(weight.dtype).removeprefix('torch.')} on this GPU ({ours:.0f} against"
            f" {dense:.0f} us for a product of {_N_TOKENS} x {layer.in_features:,} x {layer.out_features:,}): give"
            " weights dense."
        )


@torch.inference_mode()
def _time_product(layer: nn.Module, x: torch.Tensor) -> float:
    """Return the median microseconds that a layer takes on a GPU whose cache holds other things."""
    others, spans = torch.empty(_COLD_BYTES, dtype=torch.uint8, device=x.device), []
    layer(x)  # compiles
    for _ in range(_REPEATS):
        others.zero_()  # takes longer than the host needs to start what follows
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        layer(x)
        end.record()
        spans.append((start, end))
    torch.cuda.synchronize()
    return 1000 * statistics.median(float(start.elapsed_time(end)) for start, end in spans)


def is_supported(device: torch.device) -> bool:
    """Return whether a device multiplies these numbers."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= _CAPABILITY


def _has_blocks(layer: nn.Linear) -> bool:
    return layer.in_features % _MULTIPLE == 0 and layer.out_features % _MULTIPLE == 0
