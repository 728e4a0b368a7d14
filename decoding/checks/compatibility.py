"""Whether the engine decodes a model as the model does alone: tried when the model is loaded.

The engine packs rows of different lengths into one forward and rolls back by not committing. That holds for a model
whose only states are keys and values and those of recurrent layers that we know (`attention/recurrence.py`),
and whose attention sees what ours sees. No flag of transformers
says so: a state kept in a module, a mask in chunks, a convolution over packed tokens all give fluent, wrong text. So
each model first decodes three short rows and is compared with itself alone, with its sliding windows narrowed so that
short rows go past them. What fails with our attention may still run row by row with its own; what fails there too is
refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any

import torch
import transformers

from decoding.attention.backends import NAMES, OWN
from decoding.attention.choice import pick_attention
from decoding.attention.flat_forward import FlatForward, forbid_flat_forward, get_flat_failure
from decoding.attention.recurrence import (
    get_kernel_failure,
    has_kernel,
    install_recurrence,
    is_recurrent,
    use_kernel,
)
from decoding.attention.row_by_row import RowByRowRunner
from decoding.attention.runner import GATHERS, ModelRunner
from decoding.memory.recurrent import RecurrentCache
from decoding.models.errors import ModelError, get_first_line
from decoding.models.loaded import LoadedModel
from decoding.models.loading import silence_transformers
from decoding.state.request_state import encode_prompt
from kernels import check, recurrence
from kernels.recurrence import StateRows, StateWrites, TokenInputs

_log = logging.getLogger(__name__)
# Rounding stays far below (bfloat16: 4 % seen), a token that sees what it should not lies far above.
TOLERANCE = {torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1.5e-1}
_TEXT = "def add(a, b):\n    return a + b\n\n\nfor line in open('names.txt'):\n    print(line.strip(), len(line))\n"
_LENGTHS = (11, 29, 19)
# The most tokens of a row.
_MAX_TOKENS = 64
_WINDOW = 5
_N_REJECTED = 3
# What layers may do with what they have seen: keep keys and values of all of it, or of a window or chunk of it.
_KNOWN_LAYER_TYPES = {"full_attention", "sliding_attention", "chunked_attention", "moe", "dense", "sparse"}
# And where we know a model's recurrent layers.
_RECURRENT_LAYERS = {"linear_attention", "conv", "hybrid"}


def select_attention(loaded: LoadedModel, attention: str, on_progress: Callable[[str], None] | None = None) -> None:
    """Give the model the best attention with which it decodes as it does alone: ours if possible, else its own.

    `attention` is `EngineConfig.attention`; `auto` tries the device's best, then PyTorch's, then the model's own, row
    by row, and reports the choice to `on_progress`, or else to the log, in one line. Raises ModelError with
    the reasons where none agrees with the model.
    """
    _require_known_states(loaded, is_known=install_recurrence(loaded.model) > 0)
    texts, recorder = _make_texts(loaded), _ExampleRecorder()
    with _use_narrow_windows(loaded.model):
        alone = [_compute_alone(loaded, text) for text in texts]
        if not all(logits.isfinite().all() for logits in alone):
            return  # The engine stops such a model at its first round, with an error of its own.
        _require_causal(loaded, texts[1], alone[1])
        name, reasons = _choose_backend(loaded, attention, recorder, texts, alone)
        if is_recurrent(loaded.model) and has_kernel(loaded.device):
            _try_kernel(loaded, recorder, texts, alone)
    if name == OWN.name or reasons:
        why = f" ({'; '.join(reasons)})" if reasons else " (its attention cannot be exchanged)"
        how = "one row after the other, more slowly" if name == OWN.name else f"with attention {name!r}"
        (on_progress or _log.warning)(f"{loaded.name}: runs {how}{why}")
    if (failure := get_flat_failure(loaded.model)) is not None:
        (on_progress or _log.warning)(f"{loaded.name}: runs by transformers' own forward, more slowly ({failure})")


def _require_causal(loaded: LoadedModel, text: list[int], alone: torch.Tensor) -> None:
    """Raise ModelError if the logits `alone` of a text change with the tokens that follow."""
    shorter = _compute_alone(loaded, text[:-_N_REJECTED])
    if _compute_distance(shorter, alone[:-_N_REJECTED]) > TOLERANCE[loaded.dtype]:
        raise ModelError(
            f"{loaded.name} cannot be used: the tokens of {type(loaded.model).__name__} see those behind them, so it is"
            " an encoder (is is_decoder false in its config.json?): choose a causal language model."
        )


def _choose_backend(
    loaded: LoadedModel, attention: str, recorder: _ExampleRecorder, texts: list[list[int]], alone: list[torch.Tensor]
) -> tuple[str, list[str]]:
    """Let the model use the first backend that decodes as it does alone; return its name, and what others did wrong.

    Raises ModelError if there is none.
    """
    own = loaded.model.config._attn_implementation
    reasons: list[str] = []
    for name in _list_candidates(loaded, attention):
        with silence_transformers():
            loaded.model.set_attn_implementation(own if name == OWN.name else NAMES[name])
        kind = RowByRowRunner if name == OWN.name else ModelRunner
        reason = _choose_forward(loaded, kind, recorder, texts, alone)
        if reason is None:
            return name, reasons
        reasons.append(f"with attention {name!r} {reason}")
    raise ModelError(_format_refusal(loaded, attention, reasons))


def _choose_forward(
    loaded: LoadedModel,
    kind: type[ModelRunner],
    recorder: _ExampleRecorder,
    texts: list[list[int]],
    alone: list[torch.Tensor],
) -> str | None:
    """Let the model use the fastest forward that is right; return what is wrong with the last one if none is."""

    def try_forward(*, gathers: bool) -> str | None:
        setattr(loaded.model, GATHERS, gathers)
        runner = kind(loaded.model, loaded.vocab_size, len(texts), max_tokens=_MAX_TOKENS)
        if isinstance(runner.cache, RecurrentCache):
            runner.cache.recurrence = recorder
        return _describe_difference(runner, texts, alone, TOLERANCE[loaded.dtype])

    forbid_flat_forward(loaded.model, None)
    if FlatForward.suits(loaded.model):
        if (reason := try_forward(gathers=False)) is None:
            return None
        forbid_flat_forward(loaded.model, reason)
    return try_forward(gathers=False) and try_forward(gathers=True)


class _ExampleRecorder:
    """The recurrence by PyTorch, which keeps an example of each form of tokens that the layers of a model bring."""

    advance_states = staticmethod(recurrence.advance_states)

    def __init__(self) -> None:
        self.examples: dict[tuple[torch.Size | None, ...], TokenInputs] = {}

    def run_tokens(
        self, states: torch.Tensor, rows: StateRows, tokens: TokenInputs
    ) -> tuple[torch.Tensor, StateWrites]:
        """Return what each token reads and what it writes."""
        self.examples[tuple(None if part is None else part.shape[1:] for part in tokens)] = tokens
        return recurrence.run_tokens(states, rows, tokens)


def _try_kernel(
    loaded: LoadedModel, recorder: _ExampleRecorder, texts: list[list[int]], alone: list[torch.Tensor]
) -> None:
    """Let the kernel compute the rounds of a hybrid if it is right for its forms of tokens, and decodes as PyTorch."""
    model, forms = loaded.model, recorder.examples.values()
    use_kernel(model, next(filter(None, (check.check_recurrence(like, loaded.device) for like in forms)), None))
    if get_kernel_failure(model) is None:
        runner = ModelRunner(model, loaded.vocab_size, len(texts), max_tokens=_MAX_TOKENS)
        use_kernel(model, _describe_difference(runner, texts, alone, TOLERANCE[loaded.dtype]))


def _format_refusal(loaded: LoadedModel, attention: str, reasons: list[str]) -> str:
    remedy = "choose another architecture, such as Llama, Qwen, Mistral or Gemma."
    if attention != "auto":
        remedy = f"use attention auto instead of {attention!r}, or {remedy}"
        reasons = reasons or [f"its attention cannot be exchanged for {attention!r}"]
    kind = type(loaded.model).__name__
    return (
        f"{loaded.name} cannot be used: {kind} does not decode here as it does alone ({'; '.join(reasons)}): {remedy}"
    )


def _require_known_states(loaded: LoadedModel, *, is_known: bool) -> None:
    """Raise ModelError for a model whose configuration says that it remembers in another way.

    `is_known` says whether it has recurrent layers that call our functions.
    """
    layers = set(getattr(loaded.model.config.get_text_config(), "layer_types", None) or ()) - _KNOWN_LAYER_TYPES
    if is_known:
        layers -= _RECURRENT_LAYERS
    if layers or (getattr(loaded.model, "_is_stateful", False) and not is_known):
        what = f" in layers of type {', '.join(sorted(layers))}" if layers else ""
        raise ModelError(
            f"{loaded.name} cannot be used: {type(loaded.model).__name__} keeps a state other than keys and values"
            f"{what}, of a kind that cannot be rolled back here to the tokens that stay: choose a model of attention"
            " alone, such as Llama, Qwen, Mistral or Gemma, or a hybrid that docs/models.md lists."
        )


@contextmanager
def _use_narrow_windows(model: Any) -> Iterator[None]:
    """Make the sliding windows of a model so narrow that a short row goes past them."""
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    modules = [module for module in model.modules() if getattr(module, "sliding_window", None) == window]
    holders = [config, *modules] if window else []
    for holder in holders:
        holder.sliding_window = _WINDOW
    try:
        yield
    finally:
        for holder in holders:
            holder.sliding_window = window


def _list_candidates(loaded: LoadedModel, attention: str) -> Iterator[str]:
    # Hybrid models do not set the flag, but their attention layers are ordinary ones.
    exchangeable = loaded.model._supports_attention_backend or is_recurrent(loaded.model)
    best = pick_attention(attention, loaded.device)
    if exchangeable:
        yield best
    if attention == "auto":
        if exchangeable and best != "sdpa":
            yield "sdpa"
        if not is_recurrent(loaded.model):
            yield OWN.name


@torch.inference_mode()
def _compute_alone(loaded: LoadedModel, text: list[int]) -> torch.Tensor:
    """Return logits [T, V] of a text by the model's own forward, without a cache."""
    try:
        return loaded.model(torch.tensor([text], device=loaded.device), use_cache=False).logits[0].float()  # type: ignore[no-any-return]
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # each architecture fails in its own way
        raise ModelError(
            f"{loaded.name} cannot be used: {type(loaded.model).__name__} does not run by itself with transformers"
            f" {transformers.__version__} ({get_first_line(error)}): check its config.json, or choose another model."
        ) from error


def _make_texts(loaded: LoadedModel) -> list[list[int]]:
    tokens = cycle([token for token in encode_prompt(loaded, _TEXT) if token < loaded.vocab_size])
    return [list(islice(tokens, min(length, loaded.context_length - _N_REJECTED))) for length in _LENGTHS]


def _describe_difference(
    runner: ModelRunner, texts: list[list[int]], alone: list[torch.Tensor], tolerance: float
) -> str | None:
    """Return in words how decoding of `texts` departs from `alone`, logits [T, V] per text; None if it agrees."""
    try:
        decoded = _decode(runner, texts)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # each architecture fails in its own way
        return f"it fails ({get_first_line(error)})"
    for got, own in zip(decoded, alone, strict=True):
        off = _compute_distance(got, own[-len(got) :, : got.shape[1]])
        if not off <= tolerance:
            return f"its logits are off by {off:.1%}"
    return None


def _compute_distance(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return how far logits [T, V] lie from `want`, relative to how far these are from their mean; the median of T.

    The median, as rounding may send single tokens to another expert of a mixture.
    """
    spread = (want - want.mean(dim=1, keepdim=True)).norm(dim=1).clamp(min=1e-6)
    return float(((got.float() - want).norm(dim=1) / spread).median())


@torch.inference_mode()
def _decode(runner: ModelRunner, texts: list[list[int]]) -> list[torch.Tensor]:
    """Return logits [T, V] of the last tokens of each text, decoded as in rounds: ragged, with a rejected draft."""
    new = [min(len(text) - 1, n) for text, n in zip(texts, (6, 8, 7), strict=True)]
    for row, (text, n) in enumerate(zip(texts, new, strict=True)):
        runner.cache.start(row, len(text) + _N_REJECTED)
        runner.forward([text[: len(text) - n]], n_last=[1], first_row=row, whole=True)
        runner.cache.commit([len(text) - n], first_row=row)
    kept = [2, 1, 3]
    first = [text[len(text) - n :][:k] for text, n, k in zip(texts, new, kept, strict=True)]
    draft = [[*first[0], *texts[0][:_N_REJECTED]], *first[1:]]
    before = _split(runner.forward(draft), draft)
    runner.cache.commit(kept)
    rest = [text[len(text) - n + k :] for text, n, k in zip(texts, new, kept, strict=True)]
    after = _split(runner.forward(rest), rest)
    return [torch.cat([b[:k], a]) for b, k, a in zip(before, kept, after, strict=True)]


def _split(logits: torch.Tensor, tokens: list[list[int]]) -> list[torch.Tensor]:
    return list(torch.split(logits, [len(row) for row in tokens]))
