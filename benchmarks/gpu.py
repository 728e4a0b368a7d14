"""On a GPU: are the kernels right, how fast are they, and how fast is the engine with a model of 7.8B parameters?

Needs torch, triton, transformers and this repository, no model files and no network; ends within --minutes.

1. Kernels against the float32 reference; nothing is measured if one is wrong.
2. Copy bandwidth and matrix-product rate of the device, as upper limits; the sweep of `bassline bench kernels`.
3. The engine at the shape of BASS's 7.8B code model (here with grouped queries) with a 310M-shaped draft model, bf16,
   for each batch: plain and speculative decoding, each also in fp8; for the batches of --generate also
   transformers' generate with a static cache.

Weights are random, except that embedding and output layer make the target generate a fixed permutation of its
vocabulary from a random start, and the draft model the same permutation with a share of errors. So a draft token is
accepted with a known probability (--acceptance), and every matrix product is as large as in a real model. The text
says nothing about acceptance or quality of real models, and its nucleus is a single token.

    python -m benchmarks.gpu --json gpu.json
    python -m benchmarks.gpu --batches 8 --acceptance 0.85 --draft-lengths 4,6,8 --kernel-seconds 0
    TRITON_INTERPRET=1 python -m benchmarks.gpu --tiny       # without a GPU: runs the script, measures nothing
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks import kernels
from benchmarks._report import Report, build_parser, parse_numbers, print_table
from benchmarks._timing import measure_copy_bandwidth, measure_matmul_rate
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models.errors import ModelError
from decoding.models.loaded import LoadedModel
from decoding.models.weight_formats import FORMATS
from decoding.prepare import prepare_model
from decoding.request import Completion, Request, SamplingParams
from kernels.availability import KernelError, require_triton

# Embeddings this large keep their direction whatever the layers add: see `_write_permutation`.
_EMBEDDING_SIZE = 8.0
_LOGIT_GAIN = 0.5

TARGET_7_8B = {"hidden_size": 4096, "intermediate_size": 15360, "num_hidden_layers": 32, "num_attention_heads": 32,
               "num_key_value_heads": 8}  # fmt: skip
DRAFT_310M = {"hidden_size": 2048, "intermediate_size": 6656, "num_hidden_layers": 4, "num_attention_heads": 16,
              "num_key_value_heads": 4}  # fmt: skip
TINY = {"hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1}  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Check and measure, print and write the report; return 1 if a kernel is wrong or none can run."""
    options = _parse_options(argv)
    started = time.perf_counter()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not options.tiny:
        print("there is no GPU here: measure on one, or give --tiny to see that the script runs", file=sys.stderr)
        return 1
    try:
        require_triton(device)
    except KernelError as error:
        print(error, file=sys.stderr)
        return 1
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu (interpreter, not a measurement)"
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    report = Report("gpu", name, vars(options) | versions)
    checked = list(kernels.check(device, tiny=options.tiny))
    print_table(checked)
    if not all(row["ok"] for row in checked):
        print("a kernel is wrong: nothing was measured", file=sys.stderr)
        return 1
    _print(started, "kernels are right")

    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    bandwidth, rate = measure_copy_bandwidth(device), measure_matmul_rate(device, dtype)
    report.figures |= {"copy_gb_per_s": bandwidth / 1e9, "matmul_tflop_per_s": rate / 1e12}
    print(f"\n{name}: copy {bandwidth / 1e9:.0f} GB/s, matrix product {rate / 1e12:.0f} TFLOP/s in {dtype}\n")
    report.rows += list(_measure_kernels(options, dtype, device, bandwidth))
    print_table(report.rows)
    report.figures |= kernels.compute_figures(report.rows)
    report.write(options.json)  # in case the rest fails
    _print(started, "kernels measured")

    arms = []
    for row in _measure_engine(options, dtype, device, bandwidth, rate, started + 60 * options.minutes):
        arms.append(row)
        _print(started, f"batch {row['batch']}, {row['arm']}: {row['tokens/s']:.0f} tokens/s")
        report.rows = [*report.rows, row]
        report.figures |= {
            f"engine.b{row['batch']}.{row['arm']}.{figure.replace(' ', '_')}": value
            for figure, value in row.items()
            if isinstance(value, float)
        }
        report.write(options.json)
    print()
    print_table(arms)
    return 0


def _measure_kernels(
    options: argparse.Namespace, dtype: torch.dtype, device: torch.device, bandwidth: float
) -> Iterator[dict[str, Any]]:
    tiny = options.tiny
    yield from kernels.sweep(
        kernels.Shape(4, 2, 64) if tiny else kernels.Shape(32, 8, 128),
        (2,) if tiny else (1, 2, 4, 8, 16, 32),
        (32,) if tiny else (128, 512, 2048, 8192),
        (4,) if tiny else (1, 4, 8, 16),
        dtype,
        device,
        bandwidth,
        time.perf_counter() + options.kernel_seconds,
    )


def _measure_engine(
    options: argparse.Namespace,
    dtype: torch.dtype,
    device: torch.device,
    bandwidth: float,
    rate: float,
    until: float,
) -> Iterator[dict[str, Any]]:
    """Yield a row per batch and arm; an arm starts only if the time left exceeds the longest arm so far."""
    own = _build_model(_build_shapes(options)[0], options, dtype, device)
    n_weights = sum(p.numel() for name, p in own.model.named_parameters() if "embed_tokens" not in name)
    generated: dict[int, float] = {}
    for batch in options.generate:  # before the model's layers are ours
        # Each batch size compiles for about a minute.
        if time.perf_counter() + (0 if options.tiny else 100) > until:
            print(f"out of time: generate at batch {batch} was not measured", file=sys.stderr)
            break
        row = _generate(own, batch, options)
        generated[batch] = row["tokens/s"]
        yield row
    targets = {"": prepare_model(own, "ragged", "dense")}
    if options.tiny or FORMATS["fp8"].find_obstacle(device) is None:
        model = _build_model(_build_shapes(options)[0], options, dtype, device)
        try:
            targets["fp8 "] = prepare_model(model, "ragged", "fp8")
        except ModelError as error:
            print(error, file=sys.stderr)
    drafts: dict[float, LoadedModel] = {}
    longest_s = 0.0
    plain: dict[int, float] = {}
    speculative = [("", a, k) for a in options.acceptance for k in options.draft_lengths]
    quantized = [("fp8 ", 0.0, 0), ("fp8 ", *speculative[0][1:])] if "fp8 " in targets else []
    for batch, (weights, acceptance, k) in product(options.batches, [("", 0.0, 0), *quantized, *speculative]):
        before = time.perf_counter()
        if before + longest_s > until:
            print("out of time: the rest was not measured", file=sys.stderr)
            return
        if k and acceptance not in drafts:
            model = _build_model(_build_shapes(options)[1], options, dtype, device, acceptance)
            drafts[acceptance] = prepare_model(model, "ragged", "dense")
        done, warm_s = _decode(targets[weights], drafts[acceptance] if k else None, batch, k, options)
        row = _build_row(done, batch, weights + (f"accept {acceptance:g}, k {k}" if k else "plain"))
        floor_ms = 1000 * n_weights * (1 if weights else dtype.itemsize) / bandwidth
        steps = done.rounds
        row["ms per round"] = 1000 * statistics.median(r.draft_s + r.verify_s + r.other_s for r in steps)
        row["of weight floor"] = floor_ms / row["ms per round"] if not k else "-"
        row["outside kernels"] = sum(r.other_s for r in steps) / sum(r.draft_s + r.verify_s + r.other_s for r in steps)
        per_token = 2 * n_weights / (done.wall_s - done.prefill_s) / rate
        row["processed utilization"] = per_token * sum(r.n_verified for r in steps)
        row["useful utilization"] = per_token * sum(s.n_tokens for s in done.samples)
        plain.setdefault(batch, row["tokens/s"])
        row["vs plain"] = row["tokens/s"] / plain[batch]
        row["vs generate"] = row["tokens/s"] / generated[batch] if batch in generated else "-"
        row["warm-up s"] = warm_s
        longest_s = max(longest_s, time.perf_counter() - before)
        yield row


def _decode(
    target: LoadedModel, draft: LoadedModel | None, batch: int, k: int, options: argparse.Namespace
) -> tuple[Completion, float]:
    """Return the median of three decodings, and the seconds of the one before them, which captures the graphs."""
    config = EngineConfig(
        target="7.8B shape", drafter="./310M-shape" if k else "none", draft_length=f"fixed:{k}", max_batch=batch
    )
    engine = Engine(config, target, draft, graphs=True)
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(1, target.vocab_size, (options.context - 1,), generator=generator).tolist()
    request = Request(
        prompt=" ".join(map(str, [*words, 0])),
        n=batch,
        sampling=SamplingParams(temperature=0.2, top_p=0.95),
        max_new_tokens=options.new_tokens,
    )
    before = time.perf_counter()
    engine.generate(request)
    warm_s = time.perf_counter() - before
    runs = sorted((engine.generate(request) for _ in range(1 if options.tiny else 3)), key=lambda done: done.wall_s)
    del engine
    gc.collect()
    if target.device.type == "cuda":
        torch.cuda.empty_cache()
    return runs[len(runs) // 2], warm_s


def _build_row(done: Completion, batch: int, arm: str) -> dict[str, Any]:
    each = sorted(sample.ms_per_token or 0.0 for sample in done.samples)
    rounds = sum(sample.n_rounds for sample in done.samples)
    return {
        "batch": batch,
        "arm": arm,
        "tokens/s": sum(sample.n_tokens for sample in done.samples) / (done.wall_s - done.prefill_s),
        "first ms/token": each[0],
        "last": each[-1],
        "all": sum(each) / len(each),
        "tokens/round": sum(sample.n_tokens for sample in done.samples) / rounds,
    }


@torch.inference_mode()
def _generate(target: LoadedModel, batch: int, options: argparse.Namespace) -> dict[str, Any]:
    """Time transformers' generate, compiled, with a static cache; prefill counts in ms/token alone."""
    model = target.model
    ids = torch.randint(1, target.vocab_size, (batch, options.context), device=target.device)
    seconds: dict[int, float] = {}
    for n_new in (1, options.new_tokens) * 3:  # the first of each compiles
        before = time.perf_counter()
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=n_new,
            min_new_tokens=n_new,
            do_sample=False,
            cache_implementation="static",
            pad_token_id=0,
            eos_token_id=None,
        )
        if target.device.type == "cuda":
            torch.cuda.synchronize()
        seconds[n_new] = min(seconds.get(n_new, float("inf")), time.perf_counter() - before)
    decoding_s = seconds[options.new_tokens] - seconds[1]
    rate = batch * (options.new_tokens - 1) / decoding_s
    each = 1000 * seconds[options.new_tokens] / options.new_tokens
    row: dict[str, Any] = {"batch": batch, "arm": "transformers generate", "tokens/s": rate}
    row |= {"first ms/token": each, "last": each, "all": each, "tokens/round": 1.0}
    row["ms per round"] = 1000 * decoding_s / (options.new_tokens - 1)
    row |= dict.fromkeys(("of weight floor", "outside kernels", "processed utilization", "useful utilization"), "-")
    return row | {"vs plain": "-", "vs generate": 1.0, "warm-up s": "-"}


def _build_shapes(options: argparse.Namespace) -> tuple[dict[str, int], dict[str, int]]:
    return (TINY, TINY) if options.tiny else (TARGET_7_8B, DRAFT_310M)


def _build_model(
    shape: dict[str, int],
    options: argparse.Namespace,
    dtype: torch.dtype,
    device: torch.device,
    acceptance: float = 1.0,
) -> LoadedModel:
    """Return a Llama with random weights on the device, whose output is the permutation of `_write_permutation`."""
    vocabulary = 512 if options.tiny else 51_200
    config = LlamaConfig(
        **shape,
        vocab_size=vocabulary,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
        dtype=dtype,
    )
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = LlamaForCausalLM(config).eval().requires_grad_(False)
    finally:
        torch.set_default_dtype(before)
    for layer in model.model.layers:
        for out in (layer.self_attn.o_proj, layer.mlp.down_proj):
            out.weight.mul_((2 * config.num_hidden_layers) ** -0.5)
    _write_permutation(model, acceptance)
    weights = list(model.parameters())
    n_parameters = sum(p.numel() for p in weights)
    return LoadedModel(
        model=model,
        tokenizer=_build_tokenizer(vocabulary),
        ref="random",
        name=f"random {n_parameters / 1e9:.2f}B",
        sha256="",
        source="random",
        folder=Path(),
        dtype=dtype,
        device=device,
        n_parameters=n_parameters,
        n_weight_bytes=n_parameters * dtype.itemsize,
        context_length=4096,
        vocab_size=vocabulary,
        eos_token_ids=(),
        infill_format=None,
        has_chat_template=False,
    )


def _write_permutation(model: Any, acceptance: float) -> None:
    """Make `model` predict t + 1 after token t, except for a random share of 1 - `acceptance` of tokens.

    Embeddings are large compared with the layers' outputs, so the last hidden state keeps the direction of the token's
    embedding, and the output layer's row for the next token has the same direction. Token 0, the last of the prompt,
    has a zero embedding, so each sample continues with a different token.
    """
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    V = len(embedding)
    generator = torch.Generator(embedding.device).manual_seed(1)
    embedding.normal_(0, _EMBEDDING_SIZE, generator=generator)
    directions = torch.nn.functional.normalize(embedding.float(), dim=1)
    embedding[0] = 0
    follows = (torch.arange(V, device=embedding.device) + 1) % V
    wrong = torch.rand(V, device=embedding.device, generator=generator) >= acceptance
    follows[wrong] = follows[wrong].roll(1)
    head[follows] = (_LOGIT_GAIN * directions).to(head.dtype)


def _build_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer whose words are the numbers of its tokens."""
    inner = Tokenizer(WordLevel({str(i): i for i in range(vocabulary)}, unk_token="0"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=inner)


def _print(started: float, what: str) -> None:
    print(f"[{time.perf_counter() - started:4.0f} s] {what}", file=sys.stderr, flush=True)


def _parse_options(argv: list[str] | None) -> argparse.Namespace:
    parser = build_parser("gpu", __doc__)
    parser.add_argument("--minutes", type=float, default=9.0, help="end within this time")
    parser.add_argument("--kernel-seconds", type=float, default=120.0, help="part of it for the sweep of the kernels")
    parser.add_argument(
        "--batches", type=parse_numbers, default=[8, 1, 2, 4, 16], help="samples decoded at once, in order"
    )
    parser.add_argument(
        "--acceptance",
        type=partial(parse_numbers, kind=float),
        default=[0.85, 0.7, 0.8, 0.9],
        help="probabilities, comma-separated",
    )
    parser.add_argument("--draft-lengths", type=parse_numbers, default=[4, 7], help="k, comma-separated")
    parser.add_argument("--generate", type=parse_numbers, default=[8, 1], help="batches of transformers' generate")
    parser.add_argument("--context", type=int, default=512, help="tokens of the prompt")
    parser.add_argument("--new-tokens", type=int, default=128, help="tokens of each sample")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes, to test the script; no measurement")
    options = parser.parse_args(argv)
    if options.tiny:
        options.batches, options.acceptance, options.draft_lengths, options.generate = [2], [0.8], [2], [2]
        options.context, options.new_tokens = 8, 3
    return options


if __name__ == "__main__":
    sys.exit(main())
