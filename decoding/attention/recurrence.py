"""Recurrent layers of transformers' models over the rows of a batch: their own forward, with our functions in it.

Transformers computes what such a layer keeps from token to token in a few functions, which have the same names in all
families. Everything else in the layer (projections, gates, norms) works token by token, so it runs on packed tokens as
it is. In a forward over a `RecurrentCache` the layers call our functions instead, one for each kind of state:

    short convolution          causal_conv1d_fn               LFM2, and a part of all the others
    gated delta rule           torch_chunk_gated_delta_rule   Qwen3-Next, Qwen3.5, OLMo Hybrid
    with a decay per channel   chunk_kimi_delta_attention     Kimi Linear
    Mamba-2                    mamba2_chunk_scan              Granite 4 H, Bamba, Falcon-H1, Nemotron-H, Zamba2
    Mamba                      mamba_selective_scan           Jamba

Without such a cache, and in other models of its class, transformers' functions run.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers.activations import ACT2FN

from decoding.memory.recurrent import Recurrence, RecurrentCache
from decoding.models.packing import WEIGHT_IS_READ
from kernels import recurrence, triton_recurrence
from kernels.availability import triton
from kernels.recurrence import TokenInputs

_N_LAYERS = "bassline_recurrent_layers"
_FORWARD = "bassline_forward"
_FAILURE = "bassline_recurrence_failure"
_OURS = {"layout", "masks"}  # what a forward is given for our attention, and functions of others need not take
_VECTORS = 64  # elements
Function = Callable[..., Any]


def install_recurrence(model: nn.Module) -> int:
    """Let the recurrent layers of a model call our functions over a `RecurrentCache`; return how many layers these are.

    A layer is found by the functions that its class calls. A model with a cache class of its own,
    such as Mamba, has none.
    """
    if not is_recurrent(model) and "past_key_values" in inspect.signature(model.forward).parameters:
        layers = [module for module in model.modules() if _find_methods(type(module))]
        for i, layer in enumerate(layers):
            _install(layer, i)
        setattr(model, _N_LAYERS, len(layers))
    return getattr(model, _N_LAYERS, 0)


def is_recurrent(model: Any) -> bool:
    """Whether a model has recurrent layers that call our functions."""
    return bool(getattr(model, _N_LAYERS, 0))


def get_recurrence(model: Any) -> Recurrence:
    """Return what computes the rounds of a model: PyTorch, unless a check has found the kernel right."""
    return triton_recurrence if getattr(model, _FAILURE, "not checked") is None else recurrence


def has_kernel(device: torch.device) -> bool:
    """Whether the Triton kernel may compute rounds on a device."""
    return device.type == "cuda" and triton is not None


def use_kernel(model: Any, failure: str | None) -> None:
    """Let the Triton kernel compute the rounds of a model from now on, unless a check of it has failed."""
    setattr(model, _FAILURE, failure)


def get_kernel_failure(model: Any) -> str | None:
    """Return why the kernel must not compute the rounds of a model; None if it may, or was not checked."""
    failure: str | None = getattr(model, _FAILURE, None)
    return failure


class _LayerForward:
    def __init__(self, cache: RecurrentCache, layer: int) -> None:
        self.cache = cache
        self._layer = layer
        self._n_states = 0

    def take_state_key(self) -> tuple[int, int]:
        """Return the name of the state that the layer asks for next."""
        self._n_states += 1
        return self._layer, self._n_states


_active = threading.local()


def _find_methods(kind: type[nn.Module]) -> dict[str, tuple[FunctionType, set[str]]]:
    """Return the methods of a class that call functions which we replace, each with the names of these."""
    found = {}
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        inner = inspect.unwrap(method)
        called = {word for word in inner.__code__.co_names if word in _FUNCTIONS and word in inner.__globals__}
        if called:
            found[name] = inner, called
    return found


def _install(layer: nn.Module, index: int) -> None:
    for name, (method, called) in _find_methods(type(layer)).items():
        for child in re.findall(r"self\.(\w+)\.weight @", inspect.getsource(method)):
            setattr(getattr(layer, child), WEIGHT_IS_READ, True)
        functions = {word: _replace(method.__globals__[word], _FUNCTIONS[word]) for word in called}
        ours = FunctionType(
            method.__code__, {**method.__globals__, **functions}, name, method.__defaults__, method.__closure__
        )
        ours.__kwdefaults__ = method.__kwdefaults__
        setattr(layer, name, MethodType(ours, layer))
    setattr(layer, _FORWARD, layer.forward)

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        cache = next((given for given in (*args, *kwargs.values()) if isinstance(given, RecurrentCache)), None)
        outer = getattr(_active, "call", None)
        _active.call = None if cache is None else _LayerForward(cache, index)
        try:
            return getattr(self, _FORWARD)(*args, **kwargs)
        finally:
            _active.call = outer

    # Methods, not closures over the layer, so that a copy of the model runs its own layers.
    layer.forward = MethodType(forward, layer)


def _replace(original: Function, ours: Function) -> Function:
    """Return `ours(call, original, ...)` in a forward over a `RecurrentCache`, and the original elsewhere."""

    def function(*args: Any, **kwargs: Any) -> Any:
        call = getattr(_active, "call", None)
        if call is None:
            return original(*args, **kwargs)
        return ours(call, original, *args, **{name: given for name, given in kwargs.items() if name not in _OURS})

    return function


def _compute_evenly(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Apply a function to each element, and to zeros: PyTorch computes the last few of a tensor in another way."""
    n = x.numel()
    return function(F.pad(x.flatten(), (0, -n % _VECTORS)))[:n].view(x.shape)


def _convolve(
    call: _LayerForward,
    _original: Function,
    hidden_states: torch.Tensor,  # [1, C, N]
    weight: torch.Tensor,  # [C, width]
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    **_: Any,
) -> torch.Tensor:
    """Return [1, C, N]."""
    out = call.cache.convolve(call.take_state_key(), hidden_states[0].T, weight, bias)
    out = out if activation is None else _compute_evenly(ACT2FN[activation], out)
    return out.to(hidden_states.dtype).T[None]


def _run_delta_rule(
    call: _LayerForward,
    original: Function,
    query: torch.Tensor,  # [1, N, G, K]
    key: torch.Tensor,  # [1, N, G, K]
    value: torch.Tensor,  # [1, N, H, V]
    g: torch.Tensor,  # [1, N, H], or [1, N, H, K] with a decay per channel
    beta: torch.Tensor,  # [1, N, H]
    *,
    use_qk_l2norm_in_kernel: bool = False,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the tokens read, [1, N, H, V], and a last state that means nothing."""

    def bring_tokens() -> TokenInputs:
        q, k = query[0].float(), key[0].float()
        if use_qk_l2norm_in_kernel:
            q, k = (part * torch.rsqrt((part * part).sum(dim=-1, keepdim=True) + 1e-6) for part in (q, k))
        return TokenInputs(
            q * q.shape[-1] ** -0.5, k, value[0].float(), _compute_evenly(torch.exp, g[0].float()), beta[0].float()
        )

    def run_chunks(state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        options.update(initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel)
        out, last = original(query, key, value, g=g, beta=beta, **options)
        return out[0], last

    shape = value.shape[2], key.shape[3], value.shape[3]
    out = call.cache.recur(call.take_state_key(), shape, bring_tokens, run_chunks)
    return out[None].to(query.dtype), out.new_empty(0)


def _run_mamba2(
    call: _LayerForward,
    original: Function,
    hidden_states: torch.Tensor,  # [1, N, H, P]
    dt: torch.Tensor,  # [1, N, H]
    A: torch.Tensor,  # [H]
    B: torch.Tensor,  # [1, N, G, S]
    C: torch.Tensor,  # [1, N, G, S]
    chunk_size: int,
    D: torch.Tensor | None = None,  # [H]
    dt_bias: torch.Tensor | None = None,
    *,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,
    **options: Any,
) -> Any:
    """Return [1, N, H, P], and a last state that means nothing if one is asked for."""
    N, H, P = hidden_states.shape[1:]

    def bring_tokens() -> TokenInputs:
        step = dt[0] if dt_bias is None else dt[0] + dt_bias.to(dt.dtype)
        step = (_compute_evenly(F.softplus, step) if dt_softplus else step).clamp(*dt_limit).float()
        x = hidden_states[0].float() * step[..., None]
        return TokenInputs(C[0].float(), B[0].float(), x, _compute_evenly(torch.exp, step * A.float()), None)

    def run_chunks(state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # Chunks longer than all tokens would be computed over padding.
        options.update(initial_states=state.transpose(2, 3), dt_softplus=dt_softplus, dt_limit=dt_limit)
        out, last = original(
            hidden_states, dt, A, B, C, min(chunk_size, N), dt_bias=dt_bias, return_final_states=True, **options
        )
        return out[0], last.transpose(2, 3)

    out = call.cache.recur(call.take_state_key(), (H, B.shape[3], P), bring_tokens, run_chunks)
    if D is not None:
        out = out + D.float()[:, None] * hidden_states[0].float()
    # In float32, as transformers returns it: its layers cast after the gate and norm.
    return (out[None], out.new_empty(0)) if return_final_states else out[None]


def _run_mamba(
    call: _LayerForward,
    _original: Function,
    hidden_states: torch.Tensor,  # [1, H, N]
    dt: torch.Tensor,  # [1, H, N]
    A: torch.Tensor,  # [H, S]
    B: torch.Tensor,  # [1, S, N]
    C: torch.Tensor,  # [1, S, N]
    D: torch.Tensor | None = None,  # [H]
    z: torch.Tensor | None = None,  # [1, H, N]
    delta_bias: torch.Tensor | None = None,
    *,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    **_: Any,
) -> Any:
    """Return [1, H, N], and a last state that means nothing if one is asked for."""
    x = hidden_states[0].T.float()  # [N, H]

    def bring_tokens() -> TokenInputs:
        step = dt[0].T if delta_bias is None else dt[0].T + delta_bias.to(dt.dtype)
        step = (_compute_evenly(F.softplus, step) if delta_softplus else step).float()
        query, key = (part[0].T[:, None].float() for part in (C, B))
        decay = _compute_evenly(torch.exp, step[..., None] * A.float())
        return TokenInputs(query, key, (step * x)[..., None], decay, None)

    out = call.cache.recur(call.take_state_key(), (*A.shape, 1), bring_tokens, None)[..., 0]
    out = out if D is None else out + x * D.float()
    out = (out if z is None else out * _compute_evenly(F.silu, z[0].T.float())).to(hidden_states.dtype).T[None]
    return (out, out.new_empty(0)) if return_last_state else out


_FUNCTIONS: dict[str, Function] = {
    "causal_conv1d_fn": _convolve,
    "torch_chunk_gated_delta_rule": _run_delta_rule,
    "chunk_kimi_delta_attention": _run_delta_rule,
    "mamba2_chunk_scan": _run_mamba2,
    "mamba_selective_scan": _run_mamba,
}
