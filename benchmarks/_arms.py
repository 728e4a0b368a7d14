"""The arms of a comparison: our engine with each drafter, policy and rule, and transformers' generate."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from decoding.config import EngineConfig
from decoding.drafters.registry import parse_drafter
from decoding.engine import Engine
from decoding.models import loading
from decoding.models.device import pick_device, pick_dtype
from decoding.models.loaded import LoadedModel, ModelSpec
from decoding.prepare import load_head, load_model
from decoding.request import Completion, Request, SamplingParams
from evaluation import dataset_files, prompting

PLAIN, GENERATE = "none", "generate"
TRAINED, SIBLING, SIBLING_TRAINED = "trained/goodput", "sibling/goodput", "sibling+trained/goodput"
INT8 = "int8:"
"""The prefix of an arm whose target has 8-bit weights."""
PEER = "@"
"""The prefix of another engine."""
TOP_P = 0.95
"""Of every arm."""
# The engines of all arms are in a GPU's memory at once, and by default each would take most of what is free.
_GPU_KV_BYTES = 2 * 2**30


@dataclass(frozen=True)
class Speed:
    """One prompt decoded by one arm."""

    tokens: int  # over all samples
    seconds: float  # prefill included
    completion: Completion | None = None  # for arms of our engine
    first_s: float | None = None  # when the first sample had finished, if known

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


class Peer(Protocol):
    """Another engine."""

    def run(self, prompt: str, n: int, temperature: float, max_tokens: int) -> Speed:
        """Decode n samples of one prompt."""


class Arms:
    """The models and engines of all arms of one target: ours with each kind of weights, and transformers'.

    An arm is `none` (our plain decoding), `DRAFTER/LENGTH[/RULE]`, either with `int8:` in front, `generate` (of
    transformers), or `@` and the name of a peer.
    """

    def __init__(
        self,
        target: str,
        names: list[str],
        dtype: str,
        device: str,
        max_tokens: int,
        max_batch: int,
        peers: Mapping[str, Peer] | None = None,
    ) -> None:
        self.names = names
        self.max_tokens = max_tokens
        self._max_batch = max_batch
        self._peers = peers or {}
        ours = [name for name in names if is_ours(name)]
        weights = dict.fromkeys(["dense", *(parse_weights(name) for name in ours)])
        self.targets = {each: _load(target, dtype, device, each) for each in weights}
        self.target = self.targets["dense"]
        refs = {ref for name in ours if (ref := parse_drafter(_parse_settings(name)[0]).model)}
        self._drafts = {ref: _load(ref, dtype, device, "dense") for ref in refs}
        self._engines = {name: self._load_engine(name) for name in ours}
        self._stock = loading.load(target, dtype, device, attention="sdpa") if GENERATE in names else None

    def _load_engine(self, name: str) -> Engine:
        drafter, length, rule = _parse_settings(name)
        target = self.targets[parse_weights(name)]
        config = EngineConfig(
            target=target.ref,
            drafter=drafter,
            draft_length=length or "fixed:0",
            acceptance=rule or "coupled",
            weights=target.weights,
            max_batch=self._max_batch,
        )
        spec = parse_drafter(drafter)
        draft = self._drafts[spec.model] if spec.model else None
        head = load_head(target) if spec.needs_head else None
        is_on_gpu = target.device.type == "cuda"
        engine = Engine(config, target, draft, head, kv_bytes=_GPU_KV_BYTES if is_on_gpu else None)
        engine.warm_up()
        if is_on_gpu:
            engine.check_graphs()
        return engine

    def get_engine(self, name: str) -> Engine:
        """The engine of an arm that is ours."""
        return self._engines[name]

    def build_prompts(self, n_tasks: int) -> Iterator[str]:
        """Yield HumanEval prompts in chat form."""
        tokenizer = self.target.tokenizer
        for task in dataset_files.load_bundled_dataset("humaneval").tasks[:n_tasks]:
            prompt = prompting.build_prompt(task, "chat")
            text = tokenizer.apply_chat_template(prompt.messages or [], tokenize=False, add_generation_prompt=True)
            yield text + prompt.reply_prefix

    def run(self, name: str, prompt: str, n: int, temperature: float) -> Speed:
        """Decode n samples of one prompt."""
        if name == GENERATE:
            return self._run_stock(prompt, n, temperature)
        if name in self._peers:
            return self._peers[name].run(prompt, n, temperature, self.max_tokens)
        sampling = SamplingParams(temperature=temperature, top_p=TOP_P)
        request = Request(prompt, n=n, sampling=sampling, max_new_tokens=self.max_tokens)
        done = self._engines[name].generate(request)
        first_s = min(s.finished_s for s in done.samples if s.finished_s is not None)
        return Speed(sum(s.n_tokens for s in done.samples), done.wall_s, done, first_s)

    @torch.inference_mode()
    def _run_stock(self, prompt: str, n: int, temperature: float) -> Speed:
        assert self._stock is not None
        eos = list(self.target.eos_token_ids)
        torch.manual_seed(0)
        started = time.perf_counter()
        ids = self._stock.tokenizer(prompt, return_tensors="pt").to(self.target.device)
        out = self._stock.model.generate(
            **ids,
            do_sample=temperature > 0,
            temperature=temperature or None,
            top_p=TOP_P,
            top_k=0,
            max_new_tokens=self.max_tokens,
            eos_token_id=eos,
            pad_token_id=eos[0],
            num_return_sequences=n,
        )
        seconds = time.perf_counter() - started
        new = out[:, ids["input_ids"].shape[1] :]
        ended = torch.isin(new, torch.tensor(eos, device=new.device))
        # Tokens before the first end-of-sequence token of each row; the rest is padding.
        return Speed(int((ended.cumsum(dim=1) == 0).sum()), seconds, first_s=seconds)


def is_ours(name: str) -> bool:
    """Whether our engine decodes an arm."""
    return name != GENERATE and not name.startswith(PEER)


def parse_weights(name: str) -> str:
    """The weights of the target in an arm, a name of `decoding.config.WEIGHTS`."""
    return "int8" if name.startswith(INT8) else "dense"


def choose_dtype(device: str, dtype: str = "auto") -> str:
    """Return the dtype that `dtype` means on `device`. Raises ModelError if the device is not here."""
    return str(pick_dtype(dtype, pick_device(device))).removeprefix("torch.")


def _parse_settings(name: str) -> tuple[str, str, str]:
    """Drafter, draft length and rule of an arm; empty where they are not named."""
    drafter, length, rule, *_ = [*name.removeprefix(INT8).split("/"), "", ""]
    return drafter, length, rule


def _load(ref: str, dtype: str, device: str, weights: str) -> LoadedModel:
    return load_model(ModelSpec(ref, dtype, device, attention="auto", weights=weights))
