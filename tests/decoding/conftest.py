"""Tiny models with random weights and a byte tokenizer: real architectures through the real code, in milliseconds."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from decoding import costs
from decoding.attention.backends import NAMES
from decoding.attention.runner import ModelRunner
from decoding.config import EngineConfig
from decoding.drafters import registry
from decoding.engine import Engine
from decoding.memory.cache import RaggedCache
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import HeadRecord, LoadedHead, prepare_head
from decoding.request import Completion, Request, RequestError
from decoding.training.initial import build_head
from kernels import draw, reference

EOS = 256
DRAFT = "./draft"
SaveModel = Callable[..., str]
CUDA = torch.cuda.is_available()
GRAPHS_ATTENTION = NAMES["ragged" if CUDA else "reference"]
"""Attention that takes lengths from tensors, as graphs need it: in Triton's interpreter it would take minutes."""


@pytest.fixture(scope="session")
def device() -> torch.device:
    """Where tiny models run: a GPU where there is one."""
    return torch.device("cuda" if CUDA else "cpu")


@pytest.fixture(scope="session", autouse=True)
def _measure_few_verifies() -> None:
    """Each engine times forty verifies to predict a round, a seventh of these tests' time: here it times six."""
    costs.SIZES, costs._REPEATS = (1, 8, 16), 1


@pytest.fixture(scope="module", autouse=True)
def _free_engines() -> Iterator[None]:
    """Free the engines of a file, which refer to themselves: their pages are tens of gigabytes that nobody touched, and
    Linux starts no process from one that has more than the machine.

    What is left stays to the end: each model that is loaded would have it searched for garbage again.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _skip_without_gpu(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("gpu") and not CUDA:
        pytest.skip("needs a CUDA device")


def draw_as_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PyTorch draw the drafts of graphs where Triton's interpreter would."""
    if not CUDA:
        monkeypatch.setattr(draw, "draw_tokens", reference.draw_tokens)


@pytest.fixture
def in_graphs(target: LoadedModel, draft: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the tiny models the attention of graphs, and draws in PyTorch: test_draw.py shows that they agree."""
    draw_as_graphs(monkeypatch)
    before = target.model.config._attn_implementation
    for each in (target, draft):
        each.model.set_attn_implementation(GRAPHS_ATTENTION)
    yield
    for each in (target, draft):
        each.model.set_attn_implementation(before)


def skip_where_products_depend_on_the_batch(dtype: torch.dtype) -> None:
    """PyTorch 2.11 brings a oneDNN that, with AVX2 only, sums the last one to three tokens of six in another order."""
    has_avx512 = torch.cpu.get_capabilities().get("avx512_f")
    if dtype is torch.float32 and torch.__version__.startswith("2.11.") and not has_avx512:
        pytest.skip("float32 products of this PyTorch and CPU depend on the number of tokens (docs/decoding-texts.md)")


def skip_where_attention_depends_on_the_slots(dtype: torch.dtype) -> None:
    """On an Intel CPU the products in PyTorch's own attention are MKL's, which sums 300 float32 slots in several ways.

    The attention in C, which is the default, has one order everywhere.
    """
    cpuinfo = Path("/proc/cpuinfo")
    if dtype is torch.float32 and cpuinfo.exists() and "GenuineIntel" in cpuinfo.read_text():
        pytest.skip("PyTorch's float32 attention depends on the number of slots on Intel CPUs (docs/decoding-texts.md)")


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Several threads again, for tests of who uses how many."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return byte_tokenizer()


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, and an end of sequence."""
    vocabulary = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))} | {"<eos>": EOS}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>")


@pytest.fixture
def save_model(tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SaveModel:
    """Writes a model and a tokenizer into a folder, beside an empty cache; returns the folder as a reference."""
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))

    def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast | None = tokenizer, name: str = "tiny") -> str:
        model.save_pretrained(tmp_path / name)
        if tokenizer:
            tokenizer.save_pretrained(tmp_path / name)
        return str(tmp_path / name)

    return save


def tiny_qwen2(seed: int = 0) -> PreTrainedModel:
    """A two-layer Qwen2 whose next-token distribution is neither flat nor certain."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=260,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=False,
    )
    model = Qwen2ForCausalLM(config).eval()
    with torch.no_grad():
        model.lm_head.weight.normal_(0, 0.4)
    return model


def disturbed(model: PreTrainedModel, amount: float) -> PreTrainedModel:
    """The same model with noise on its weights: a draft model that is often right."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * amount * weight.std())
    return model


@pytest.fixture(scope="session")
def loaded(tokenizer: PreTrainedTokenizerFast, device: torch.device) -> Callable[..., LoadedModel]:
    def load(model: PreTrainedModel, device: torch.device = device) -> LoadedModel:
        model.to(device).set_attn_implementation(NAMES["sdpa"])
        return LoadedModel(
            model=model,
            tokenizer=tokenizer,
            ref="tiny",
            name="tiny",
            sha256="0" * 64,
            source="test",
            folder=Path(),
            dtype=torch.float32,
            device=device,
            n_parameters=model.num_parameters(),
            n_weight_bytes=4 * model.num_parameters(),
            context_length=512,
            vocab_size=EOS + 1,
            eos_token_ids=(EOS,),
            infill_format=None,
            has_chat_template=False,
        )

    return load


@pytest.fixture(scope="session")
def target(loaded: Callable[..., LoadedModel]) -> LoadedModel:
    return loaded(tiny_qwen2())


@pytest.fixture(scope="session")
def draft(loaded: Callable[..., LoadedModel]) -> LoadedModel:
    return loaded(disturbed(tiny_qwen2(), 0.05))


@pytest.fixture(scope="session")
def head(target: LoadedModel) -> LoadedHead:
    """A head that knows half of the tiny target's tokens and is now and then right."""
    made = build_head(target, (0, 1, 1), torch.arange(0, EOS + 1, 2), seed=0)
    record = HeadRecord("tiny", target.sha256, "1" * 64, "trained", "2026-01-01", 1, 1, len(made.d2t), [0, 1, 1])
    return prepare_head(made.eval().requires_grad_(requires_grad=False), target, record)


@pytest.fixture(scope="session")
def engine(target: LoadedModel, draft: LoadedModel, head: LoadedHead) -> Callable[..., Engine]:
    """Make an engine over the tiny models; keywords are EngineConfig's. The draft model is "./draft"."""

    def make(draft_model: LoadedModel = draft, **settings: object) -> Engine:
        config = EngineConfig(**{"target": "tiny", "drafter": "none", **settings})
        draft = draft_model if DRAFT in config.drafter else None
        return Engine(config, target, draft, head if registry.TRAINED in config.drafter else None)

    return make


FORWARD_S, TOKEN_S = 0.02, 0.0022


class Machine:
    """Forwards take `slowness` times what they are priced at; nothing else takes time."""

    def __init__(self) -> None:
        self.now, self.slowness = 0.0, 1.0

    def spend(self, n_tokens: int) -> None:
        self.now += self.slowness * (FORWARD_S + n_tokens * TOKEN_S)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    simulated, forward = Machine(), ModelRunner.forward

    def priced(runner: ModelRunner, tokens: Sequence[Sequence[int]], **options: Any) -> Any:
        simulated.spend(sum(map(len, tokens)))
        return forward(runner, tokens, **options)

    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: simulated.now)
        patch.setattr(ModelRunner, "forward", priced)
        yield simulated


def arriving(*wanted: Request, every: int) -> Iterator[Request | None]:
    """Yield a request, then as many times none."""
    for request in wanted:
        yield request
        yield from [None] * every


def texts(outcome: Completion | RequestError) -> list[list[int]]:
    """The tokens of each sample of a request that was decoded."""
    assert isinstance(outcome, Completion), outcome
    return [sample.token_ids for sample in outcome.samples]


@contextmanager
def with_own_attention(target: LoadedModel) -> Iterator[PreTrainedModel]:
    """The model as transformers runs it."""
    target.model.set_attn_implementation("eager")
    yield target.model
    target.model.set_attn_implementation(NAMES["sdpa"])


def held(cache: RaggedCache, row: int, n: int) -> dict[Any, torch.Tensor]:
    """What a cache holds of the first tokens of a row, [n, H, D] by the name of the buffer."""
    size, pages = cache.pool.page_size, torch.tensor([*cache.list_pages()[row]], dtype=torch.int64, device=cache.device)
    at = torch.arange(n, device=cache.device)
    return {name: buffer[pages[at // size], :, at % size] for name, buffer in cache.pool.buffers.items()}


def drafters() -> list[str]:
    """All ways to write a drafter, by the registry, with the tiny draft model."""
    return [form.replace(registry.MODEL, DRAFT) for form in registry.list_forms()]
