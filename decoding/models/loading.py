"""Loads a causal language model with transformers and checks that the engine can use it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from decoding.models import fetch, registry
from decoding.models.device import is_out_of_memory, pick_device, pick_dtype
from decoding.models.errors import (
    ModelError,
    get_first_line,
)
from decoding.models.infilling import find_format
from decoding.models.loaded import LoadedModel
from decoding.models.memory import count_bytes_read
from decoding.models.trusted_code import VARIABLE, check_code, is_trusted

# Tokens that end an answer. Instruct checkpoints often declare one of them as EOS and generate another.
END_TOKENS = (
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<end_of_turn>", "<｜end▁of▁sentence｜>",
    "▁<EOT>",  # of CodeLlama, after the text of a gap
)  # fmt: skip
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
# What the name of a model that also sees images has in place of the name of its language model.
_WITH_IMAGES = "ForCausalLM", "ForConditionalGeneration"


def load(
    ref: str,
    dtype: str = "auto",
    device: str = "auto",
    on_progress: Callable[[str], None] | None = None,
    attention: str | None = None,
) -> LoadedModel:
    """Fetch the model `ref` unless it is in the cache, load it on `device`, and return it.

    `dtype` auto is bfloat16 where the device multiplies it, else float32 (float16 on older GPUs). `attention` names a
    function of transformers' `AttentionInterface`; None: one that is right. Code from a repository runs only if
    the operator listed its commit (`trusted_code.py`). Raises `ModelError`.
    """
    trusted = is_trusted(registry.resolve(ref))
    info = fetch.ensure(ref, on_progress=(lambda news: on_progress(str(news))) if on_progress else None)
    if trusted:
        check_code(info)
    name, folder = info.name, info.folder
    config = _load_causal_config(folder, name, trusted)
    on, kind = pick_device(device), pick_dtype(dtype, pick_device(device))
    if on_progress:
        on_progress(f"{name}: loading into memory ({on}, {str(kind).removeprefix('torch.')})")
    tokenizer = _load_tokenizer(folder, name, trusted)
    model = _load_weights(folder, name, config, kind, on, attention, trusted)
    text_config = config.get_text_config()
    vocab_size = min(text_config.vocab_size, len(tokenizer))
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        ref=ref,
        name=name,
        sha256=info.sha256,
        source=info.source,
        folder=folder,
        dtype=kind,
        device=on,
        n_parameters=sum(parameter.numel() for parameter in model.parameters()),
        n_weight_bytes=count_bytes_read(model),
        context_length=_find_context_length(text_config, tokenizer),
        vocab_size=vocab_size,
        eos_token_ids=_collect_eos_token_ids(model, tokenizer),
        infill_format=find_format(tokenizer, vocab_size),
        has_chat_template=bool(tokenizer.chat_template),
    )


def load_tokenizer(ref: str) -> Any:
    """Return the tokenizer of a model alone; its own code never runs. Raises `ModelError`."""
    info = fetch.ensure(ref)
    return _load_tokenizer(info.folder, info.name, trusted=False)


def check_same_tokenizer(target: LoadedModel, draft: LoadedModel) -> None:
    """Raise `ModelError` unless each id that both models have is the same token in both.

    One vocabulary may be longer: models of one family are padded to different sizes. The draft model must know every
    real token of the target, because it reads the target's output.
    """
    ours, theirs = _map_ids_to_tokens(target.tokenizer), _map_ids_to_tokens(draft.tokenizer)
    advice = "choose a draft model of the target's family, or the ngram or sibling drafter."
    for token_id in range(min(target.vocab_size, draft.vocab_size)):
        if ours.get(token_id) != theirs.get(token_id):
            raise ModelError(
                f"{target.name} and {draft.name} have different tokenizers (id {token_id} is {ours.get(token_id)!r} in"
                f" the target and {theirs.get(token_id)!r} in the draft): {advice}"
            )
    beyond = [token for token_id, token in ours.items() if token_id >= draft.model.config.get_text_config().vocab_size]
    real = [token for token in beyond if not token.startswith("[PAD")]
    if real:
        raise ModelError(
            f"{draft.name} does not know {len(real)} tokens of {target.name}, such as {real[0]!r}: {advice}"
        )


def _load_causal_config(folder: Path, name: str, trusted: bool) -> Any:
    """Return the configuration of a causal language model. Raises `ModelError` for any other."""
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if trusted and "--" in json.dumps(raw.get("auto_map", {})):
        raise ModelError(
            f"{name} loads code from another repository, which cannot be trusted by commit: choose another model."
        )
    try:
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=trusted, local_files_only=True)
    except (ValueError, KeyError, OSError) as error:
        kind = raw.get("model_type", "unknown")
        if "auto_map" in raw:
            why = f"it needs code from its repository, which runs only if {VARIABLE} names its commit"
        else:
            why = f"transformers {transformers.__version__} does not know its type"
        raise ModelError(
            f"{name} is a {kind!r} model that cannot be loaded ({why}): choose an architecture transformers ships."
        ) from error
    if config.is_encoder_decoder:
        raise ModelError(
            f"{name} is an encoder-decoder model ({config.model_type}): choose a decoder-only causal language model."
        )
    model_class = _find_model_class(config, folder, trusted)
    architectures = raw.get("architectures") or []
    # Files of a model that also sees images may hold a language model that transformers loads alone, as of Qwen3.5.
    own = () if model_class is None else (model_class.__name__, model_class.__name__.replace(*_WITH_IMAGES))
    if model_class is None or (architectures and not set(own) & set(architectures)):
        raise ModelError(
            f"{name} is not a causal language model (it is {', '.join(architectures) or config.model_type}):"
            " choose one whose config.json names a ...ForCausalLM or ...LMHeadModel architecture."
        )
    return config


def _find_model_class(config: Any, folder: Path, trusted: bool) -> Any:
    """Return the model's class, None if it is not a causal language model."""
    own = getattr(config, "auto_map", None) or {}
    if trusted and "AutoModelForCausalLM" in own:
        return get_class_from_dynamic_module(own["AutoModelForCausalLM"], str(folder), local_files_only=True)
    return MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)


def _load_tokenizer(folder: Path, name: str, trusted: bool) -> Any:
    advice = f"put its tokenizer files into {folder}."
    if not any((folder / file).exists() for file in TOKENIZER_FILES):  # transformers would create an empty one
        raise ModelError(f"{name} has no tokenizer: {advice}")
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=trusted, local_files_only=True)
    except Exception as error:  # tokenizer classes raise errors of many types
        raise ModelError(f"{name} has a tokenizer that cannot be loaded ({get_first_line(error)}): {advice}") from error


def _load_weights(
    folder: Path, name: str, config: Any, dtype: torch.dtype, device: torch.device, attention: str | None, trusted: bool
) -> Any:
    """Return the model with every weight mapped from the files. Raises `ModelError` if one is missing."""
    with silence_transformers():
        try:
            model, loading = transformers.AutoModelForCausalLM.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                device_map={"": device} if device.type != "cpu" else None,
                attn_implementation=attention or find_exact_attention(config),
                trust_remote_code=trusted,
                local_files_only=True,
                use_safetensors=True,
                output_loading_info=True,
            )
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            if is_out_of_memory(error):
                raise
            raise ModelError(f"{name} cannot be loaded ({get_first_line(error)}).") from error
    missing = sorted(loading["missing_keys"]) + sorted(str(key) for key in loading["mismatched_keys"])
    if missing:
        raise ModelError(
            f"{name}: {len(missing)} weights are missing from {folder}, such as {missing[0]}: pull the model again."
        )
    return model.eval().requires_grad_(False)


def find_exact_attention(config: Any) -> str | None:
    """Return the attention that a model needs for its own forward to be right; None where transformers' choice is.

    transformers 5.17 gives Gemma 2 its `sdpa`, which leaves the soft caps out; 5.23 chooses `eager` itself.
    """
    return "eager" if getattr(config.get_text_config(), "attn_logit_softcapping", None) else None


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Hide transformers' progress bars and warnings."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _find_context_length(config: Any, tokenizer: Any) -> int:
    """Return the number of tokens up to which a row is decoded in a batch as it is alone.

    That excludes all but the first chunk of a chunked attention (Llama 4), and lengths at which the rotary embedding
    rescales for the whole batch (Phi-3's longrope, dynamic NTK).
    """
    lengths = [getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length]
    lengths.append(getattr(config, "attention_chunk_size", None))
    rope = getattr(config, "rope_parameters", None) or {}
    for settings in (rope, *rope.values()):
        if isinstance(settings, dict) and settings.get("rope_type") in ("longrope", "dynamic"):
            lengths.append(settings.get("original_max_position_embeddings"))
    return int(min(length for length in lengths if length))


def _collect_eos_token_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    ids: set[int] = set()
    for declared in (
        model.generation_config.eos_token_id,
        model.config.get_text_config().eos_token_id,
        tokenizer.eos_token_id,
    ):
        ids.update([declared] if isinstance(declared, int) else declared or [])
    added = tokenizer.get_added_vocab()
    ids.update(added[token] for token in END_TOKENS if token in added)
    return tuple(sorted(ids))


def _map_ids_to_tokens(tokenizer: Any) -> dict[int, str]:
    return {token_id: token for token, token_id in tokenizer.get_vocab().items()}
