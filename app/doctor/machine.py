"""Versions, device, kernels, attention, sandbox, and the languages that can be judged."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.core.provenance import get_version
from app.doctor.finding import Finding
from evaluation.datasets import PYTHON
from evaluation.languages import registry
from evaluation.languages.base import ToolchainError
from evaluation.sandbox import Sandbox, SandboxUnavailableError

if TYPE_CHECKING:
    import torch

SHOWN_PACKAGES = ("torch", "transformers", "triton")
SHAPE = (2, 7, 64)  # KV heads, query heads of each, width: the attention of qwen2.5-coder-0.5b
NVIDIA = Path("/proc/driver/nvidia/version")
TIERS = {
    "bwrap": "Run `apt-get install bubblewrap libseccomp2` and allow user namespaces (docs/sandbox.md).",
    "landlock": "Use a kernel from 5.13 on with Landlock, and install libseccomp2 (docs/sandbox.md).",
}


def check_versions() -> Iterator[Finding]:
    """The versions of Python and of the main packages."""
    shown = [f"{name} {get_version(name) or 'not installed'}" for name in SHOWN_PACKAGES]
    yield Finding("versions", "ok", ", ".join([f"Python {platform.python_version()}", *shown]))


def check_device() -> Iterator[Finding]:
    """The device that `auto` means, whether its kernels are right, and the attention in use."""
    from decoding.attention.choice import find_obstacle, pick_attention  # noqa: PLC0415
    from decoding.models.device import get_device_name, pick_device, pick_dtype  # noqa: PLC0415

    used = pick_device("auto")
    number_format = pick_dtype("auto", used)
    dtype = str(number_format).removeprefix("torch.")
    attention = pick_attention("auto", used)
    if used.type == "cpu":
        if NVIDIA.exists():
            what = "a GPU is here, but PyTorch cannot use it: the CPU path is used"
            yield Finding("device", "warn", what, "Install PyTorch's CUDA build and a driver that fits it.")
        yield Finding("device", "ok", f"no GPU: the CPU path is used ({get_device_name(used)}, {dtype})")
        if why := find_obstacle("native", used):
            yield Finding("kernels", "warn", why, "Until then PyTorch's attention is used, which takes twice as long.")
        else:
            yield Finding("kernels", "ok", "attention is compiled for this CPU")
    else:
        yield Finding("device", "ok", f"{get_device_name(used)}, {dtype}")
        yield from check_kernels(used, attention, number_format)
    yield Finding("attention", "ok", attention)


def check_kernels(used: torch.device, attention: str, dtype: torch.dtype) -> Iterator[Finding]:
    """Compares the Triton kernels with their references on a GPU, as loading a model does."""
    from kernels.availability import KernelError, require_triton  # noqa: PLC0415

    try:
        require_triton(used)
    except KernelError as error:
        yield Finding(
            "kernels", "warn", str(error), "Run `pip install triton`; until then PyTorch's attention is used."
        )
        return
    from kernels.check import AttentionShape, find_failures  # noqa: PLC0415  (needs Triton)

    found = find_failures(AttentionShape(*SHAPE, dtype), attention, used)
    for name, why in found.items():
        remedy = "Models are loaded without it, more slowly: report the GPU with the versions above."
        yield Finding("kernels", "warn", f"{name} is wrong on this GPU: {why}", remedy)
    if not found:
        yield Finding("kernels", "ok", "equal to their reference")


def check_sandbox() -> Iterator[Finding]:
    """Attacks each tier of the sandbox. Programs are judged in the first that blocks all attacks."""
    refused: dict[str, str] = {}
    held: list[str] = []
    for tier in TIERS:
        try:
            proven = Sandbox.detect(only=tier).describe()
        except SandboxUnavailableError as error:
            refused[tier] = str(error).removeprefix("No tier of isolation works here. ")
            continue
        held.append(tier)
        what = f"{proven['probes']} attacks blocked, Python {proven['python']}"
        yield Finding(f"sandbox {tier}", "ok", what + (", used" if held == [tier] else ""))
    for tier, why in refused.items():
        yield Finding(f"sandbox {tier}", "warn" if held else "fail", why, TIERS[tier])


def list_languages() -> list[dict[str, Any]]:
    """Every language: whether it can be judged here, its toolchain, and the one command that installs that."""
    python = {"name": PYTHON, "label": "Python", "available": True, "version": None, "install": None, "reason": ""}
    found: list[dict[str, Any]] = [{**python, "version": f"Python {platform.python_version()}"}]
    for name in registry.LANGUAGES:
        language = registry.load_language(name)
        try:
            toolchain, reason = language.toolchain.find().label, ""
        except ToolchainError as error:
            toolchain, reason = None, str(error)
        known = {"name": name, "label": language.label, "available": toolchain is not None, "version": toolchain}
        found.append({**known, "install": language.toolchain.INSTALL, "reason": reason})
    return found


def check_languages() -> Iterator[Finding]:
    """Each language but Python, which the sandbox's checks cover."""
    for each in list_languages()[1:]:
        if each["available"]:
            yield Finding(f"language {each['name']}", "ok", each["version"])
        else:
            yield Finding(f"language {each['name']}", "warn", each["reason"], f"Run `{each['install']}`.")
