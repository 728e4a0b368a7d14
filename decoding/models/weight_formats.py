"""How the weights of a model may be stored while it runs, each format declared once. Importing this loads no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import torch
    from transformers import PreTrainedModel

    from decoding.models.blocks import Blocks


class WeightFormat(ABC):
    """One way to store weights."""

    device: str | None = None
    """The only type of device that has it; None: any has."""
    uses_one_thread = False
    """Whether PyTorch computes on one thread beside its products (`threads.py`)."""

    def find_obstacle(self, device: torch.device) -> str | None:
        """Return why a device does not have it, in a sentence for users; None if it has."""
        return None

    @abstractmethod
    def apply(self, model: PreTrainedModel, *, is_flat: bool) -> Blocks | None:
        """Store the weights of a model whose linear layers are fused (`fusion.py`) in this format, in place.

        Returns the blocks of its flat forward if it `is_flat`; None where these follow from the model. Raises
        ModelError.
        """


class _Dense(WeightFormat):
    """The weights of the files, in the layout that the device reads fastest."""

    def apply(self, model: PreTrainedModel, *, is_flat: bool) -> Blocks | None:
        from decoding.models.packing import prepack

        prepack(model)
        return None


class _Int8(WeightFormat):
    """Integers of 8 bits, which ONNX Runtime multiplies."""

    device = "cpu"
    uses_one_thread = True

    def find_obstacle(self, device: torch.device) -> str | None:
        if device.type != self.device:
            return f"weights int8 are for a CPU, and the device is {device.type}: give weights dense."
        try:
            from decoding.models.int8 import is_exact
        except ImportError as error:
            return f"weights int8 need the packages onnx and onnxruntime ({error}): install them."
        if not is_exact():
            return "weights int8 need exact products of bytes, and this CPU's overflow: give weights dense."
        return None

    def apply(self, model: PreTrainedModel, *, is_flat: bool) -> Blocks | None:
        from decoding.models.int8 import Int8Linear
        from decoding.models.int8_blocks import Int8Blocks
        from decoding.models.packing import replace_linears

        if is_flat:
            return Int8Blocks(model)
        replace_linears(model, Int8Linear)
        return None


class _Fp8(WeightFormat):
    """Floating-point numbers of 8 bits."""

    device = "cuda"

    def find_obstacle(self, device: torch.device) -> str | None:
        from decoding.models.fp8 import is_supported

        if not is_supported(device):
            return "weights fp8 need a GPU that multiplies them (Ada, Hopper or later): give weights dense."
        return None

    def apply(self, model: PreTrainedModel, *, is_flat: bool) -> Blocks | None:
        from decoding.models.fp8 import quantize

        quantize(model)
        return None


FORMATS: dict[str, WeightFormat] = {"dense": _Dense(), "int8": _Int8(), "fp8": _Fp8()}


def use_threads_for(weights: str) -> AbstractContextManager[None]:
    """Let PyTorch use one thread beside ONNX Runtime's, and all its threads elsewhere, while the context lasts."""
    from decoding.models.threads import use_all_threads, use_one_thread

    return use_one_thread() if FORMATS[weights].uses_one_thread else use_all_threads()
