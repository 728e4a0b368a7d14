"""The device and dtype of a model, chosen for the hardware when the user does not name them."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

from decoding.models.errors import ModelError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def pick_device(device: str) -> torch.device:
    """Return the device; `auto` is the GPU if there is one. Raises `ModelError` for a missing or unknown device."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda"):
        raise ModelError(f"device {device!r} is not known: give auto, cpu or cuda.")
    if device == "cuda" and not torch.cuda.is_available():
        raise ModelError("device is cuda, but PyTorch finds no GPU: give auto or cpu.")
    return torch.device(device)


def pick_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Return the dtype; `auto` is bfloat16 if the hardware multiplies it, else float16 (GPU) or float32 (CPU).

    Raises `ModelError` for an unknown name.
    """
    if dtype in DTYPES:
        return DTYPES[dtype]
    if dtype != "auto":
        raise ModelError(f"dtype {dtype!r} is not known: give auto, {', '.join(DTYPES)}.")
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.bfloat16 if cpu_multiplies_bfloat16() else torch.float32


def cpu_multiplies_bfloat16() -> bool:
    """Whether the CPU has bfloat16 multiply instructions; without them bfloat16 is slower than float32."""
    return _has_any("avx512_bf16", "amx_bf16", "bf16")


def cpu_multiplies_bytes() -> bool:
    """Whether an x86 CPU sums products of unsigned and signed bytes in 32 bits; without VNNI or AMX they overflow."""
    return _has_any("avx512_vnni", "avx_vnni", "amx_int8")


def _has_any(*features: str) -> bool:
    """Whether the CPU has one of these instruction sets, as PyTorch and Linux name them."""
    if hasattr(torch.cpu, "get_capabilities"):
        capabilities = torch.cpu.get_capabilities()
        return any(capabilities.get(feature) for feature in features)
    cpuinfo = Path("/proc/cpuinfo")
    words = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    return not words.isdisjoint(features)


def get_device_name(device: torch.device) -> str:
    """Return the hardware's name for figures: the GPU model, or the CPU model and its number of cores."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} cores"
