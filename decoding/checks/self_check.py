"""Kernels and CUDA graphs, compared with their references on this device before the first request.

No test can cover every card, driver and compiler. A kernel or graph that fails or differs from its reference is
switched off and named in one warning and in every figure's provenance; decoding continues without it, more slowly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from decoding.attention.backends import NAMES, get_backend
from decoding.attention.flat_forward import forbid_flat_forward, get_flat_failure
from decoding.attention.recurrence import get_kernel_failure
from decoding.attention.runner import ModelRunner
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.models.errors import get_first_line
from decoding.models.loaded import LoadedModel
from decoding.request import Completion, Request, RequestError, SamplingParams
from decoding.state.request_state import encode_prompt
from kernels import check
from kernels.upload import upload

Decode = Callable[[Sequence[Request]], Iterator[tuple[int, Completion | RequestError]]]

_log = logging.getLogger(__name__)
# Nats by which log-probabilities of the same text may differ between two ways to compute them.
_TOLERANCE = {torch.float32: 0.02}
_TOLERANCE_HALF = 0.5
_GREEDY = SamplingParams(temperature=0.0)
# Texts of unequal length.
_PROBES = (
    "def add(a, b):\n    return",
    "import os\n\n\ndef read(path):\n    with open(path) as file:\n        return",
    "x =",
)
_N_TOKENS = MAX_DRAFT_LENGTH + 8  # more than a verify brings, so that PyTorch's attention scores them
_FEWEST_TOKENS = 3  # a drafter's cache holds all but the last two


def check_kernels(loaded: LoadedModel) -> dict[str, str]:
    """Return why kernels that the model relies on must not be used, by name; replace a wrong attention by PyTorch's.

    The kernel of recurrent layers and the flat forward were checked before with the model (`compatibility.py`).
    """
    backend = get_backend(loaded.model)
    found = {"recurrence": get_kernel_failure(loaded.model), "flat forward": get_flat_failure(loaded.model)}
    failures = {name: why for name, why in found.items() if why is not None}
    # A model that keeps its own attention stays as it is: it may be wrong with any other.
    if backend.needs_triton:
        failures |= check.find_failures(get_attention_shape(loaded), backend.name, loaded.device)
        if wrong := next((name for name in check.LAYER_KERNELS if name in failures), None):
            forbid_flat_forward(loaded.model, failures[wrong])
    if backend.name in failures:
        loaded.model.set_attn_implementation(NAMES["sdpa"])
    return failures


def get_attention_shape(loaded: LoadedModel) -> check.AttentionShape:
    """Return the shapes of a model's attention."""
    config = loaded.model.config.get_text_config()
    n_heads = config.num_attention_heads
    n_kv = getattr(config, "num_key_value_heads", None) or n_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // n_heads
    return check.AttentionShape(n_kv, n_heads // n_kv, dim, loaded.dtype)


def encode_probes(target: LoadedModel) -> list[list[int]]:
    """Return the tokens of texts of unequal length."""
    prompts = [encode_prompt(target, text) for text in _PROBES]
    return [prompt for prompt in prompts if len(prompt) >= _FEWEST_TOKENS]


def check_rounds(target: LoadedModel, runner: ModelRunner, decode: Decode) -> str | None:
    """Return why greedy texts of rounds in graphs differ from forwards of `runner`; None if they do not.

    `decode` is the engine's `generate_many`.
    """
    probes = [Request(text, sampling=_GREEDY, max_new_tokens=_N_TOKENS) for text in _PROBES]
    try:
        for position, outcome in decode(probes):
            if isinstance(outcome, Completion) and (tokens := outcome.samples[0].token_ids):
                logprobs = upload(outcome.samples[0].logprobs, runner.device)
                if error := _describe_difference(runner, encode_prompt(target, _PROBES[position]), tokens, logprobs):
                    return error
    except Exception as failure:  # a device fails in its own ways
        return get_first_line(failure)
    return None


def warn_about_disabled(disabled: Mapping[str, str], device: str) -> None:
    """Log one line that names everything that was switched off, with the reasons; nothing if all works."""
    if disabled:
        what = "; ".join(f"{name} ({why})" for name, why in sorted(disabled.items()))
        _log.warning("switched off on %s, where it does not work as it should: %s", device, what)


@torch.inference_mode()
def _describe_difference(
    runner: ModelRunner, prompt: Sequence[int], tokens: Sequence[int], logprobs: torch.Tensor
) -> str | None:
    """Return how far greedy `tokens` are from a forward's top tokens, and their `logprobs` from its."""
    runner.start(0, prompt[:-1], len(prompt) + len(tokens)).finish(0)
    logits = runner.forward([[prompt[-1], *tokens[:-1]]])
    runner.cache.clear()
    return compare_top(logits, upload(tokens, logits.device), logprobs)


def compare_top(logits: torch.Tensor, tokens: torch.Tensor, logprobs: torch.Tensor) -> str | None:
    """Return how far `tokens` [N] and their `logprobs` are from the top ones of `logits` [N, V]."""
    logp = logits.float().log_softmax(dim=1)
    own = logp.gather(1, tokens[:, None])[:, 0]
    return describe_error(torch.maximum(logp.amax(dim=1) - own, (own - logprobs).abs()).max(), logits.dtype)


def describe_error(nats: torch.Tensor, dtype: torch.dtype) -> str | None:
    """Return by how much log-probabilities differ, None where two ways to compute with `dtype` may differ as much."""
    if bool(nats <= _TOLERANCE.get(dtype, _TOLERANCE_HALF)):  # written so that NaN fails
        return None
    return f"log-probabilities are off by {nats:.2g} nats"
