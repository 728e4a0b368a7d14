"""What a figure was measured with."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import transformers

from decoding.attention.backends import get_backend
from decoding.config import EngineConfig
from decoding.models.device import get_device_name
from decoding.models.loaded import LoadedModel
from decoding.models.threads import count_threads
from decoding.models.trained_heads import LoadedHead


def collect_provenance(
    target: LoadedModel, draft: LoadedModel | None, head: LoadedHead | None
) -> dict[str, str | int | None]:
    """Return the models by hash, the device, the precision and the versions, by the names under which runs store them.

    The draft is the draft model or the trained head, whichever there is.
    """
    return {
        "target": target.label,
        "target_sha256": target.weights_sha256,
        "target_parameters": target.n_parameters,
        **_describe_draft(draft, head),
        "device": get_device_name(target.device),
        "threads": count_threads() if target.device.type == "cpu" else None,
        "dtype": str(target.dtype).removeprefix("torch."),
        "weights": target.weights,
        "attention": get_backend(target.model).name,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def select_profile_key(config: EngineConfig, facts: Mapping[str, object]) -> dict[str, str]:
    """Return what a draft-length profile depends on, of a configuration and the provenance of its engine."""
    names = ("target", "target_sha256", "draft_sha256", "device", "threads", "dtype", "torch")
    return {
        "drafter": config.drafter,
        "acceptance": config.acceptance,
        **{name: str(facts[name]) for name in names},
    }


def _describe_draft(draft: LoadedModel | None, head: LoadedHead | None) -> dict[str, str | int | None]:
    names = ("draft", "draft_sha256", "draft_parameters")
    if head is not None:
        record = head.record
        return dict(zip(names, (f"trained for {record.target}", record.sha256, record.n_parameters), strict=True))
    if draft is not None:
        return dict(zip(names, (draft.label, draft.weights_sha256, draft.n_parameters), strict=True))
    return dict.fromkeys(names)
