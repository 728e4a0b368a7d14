"""Converts a GGUF file into a folder in transformers format, once, in a separate process.

A separate process keeps torch out of the caller, which may be a web server, and returns all memory at the end. The
weights are stored in bfloat16. Rounding a dequantized value to bfloat16 changes it by at most 1/256, far less than the
quantization did. All later loads, in float32 too, start from the stored values.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module, metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from decoding.models.errors import ModelError
from decoding.models.gguf_tokenizers import complete_tokenizer
from decoding.models.progress import OnProgress, Progress

_MAGIC = b"GGUF"
# Rows of a weight that are dequantized together.
_ROWS = 512


def to_safetensors(gguf: Path, folder: Path, name: str, on_progress: OnProgress | None) -> dict[str, str]:
    """Convert `gguf` into `folder`; return the versions of the libraries used. Raises `ModelError`."""
    with gguf.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:  # known at once, without the seconds that the process takes to start
            raise ModelError(f"{name}: {gguf.name} cannot be converted (it is no GGUF file).")
    folder.mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "decoding.models.conversion", str(gguf), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    started = time.monotonic()
    try:
        while True:
            if on_progress:
                elapsed = time.monotonic() - started
                on_progress(Progress("convert", f"{name}: converting, done once ({elapsed:.0f} s so far)"))
            try:
                out, err = process.communicate(timeout=2)
                break
            except subprocess.TimeoutExpired:
                continue
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode < 0:
        raise ModelError(
            f"{name}: the conversion was killed by signal {-process.returncode}, probably because memory ran out:"
            f" it needs about {5 * gguf.stat().st_size / 1e9 + 1:.0f} GB free."
        )
    if process.returncode:
        reason = (err.strip().splitlines() or ["no reason given"])[-1]
        raise ModelError(f"{name}: {gguf.name} cannot be converted ({reason}).")
    versions: dict[str, str] = json.loads(out.splitlines()[-1])
    return versions


def main() -> None:
    """`python -m decoding.models.conversion FILE.gguf FOLDER`: convert, print the versions as JSON."""
    gguf, folder = Path(sys.argv[1]), Path(sys.argv[2])
    # A process of its own, not a pool: a pool's worker would stay for ever if this process were killed.
    tokenizer = get_context("spawn").Process(target=_convert_tokenizer, args=(gguf, folder))
    tokenizer.start()
    try:
        versions = _convert_weights(gguf, folder)
    finally:
        tokenizer.join()
    if tokenizer.exitcode:
        # An error has been printed; a signal prints nothing.
        sys.exit(1 if tokenizer.exitcode > 0 else f"the tokenizer's process ended by signal {-tokenizer.exitcode}")
    sys.stdout.write(json.dumps(versions) + "\n")
    sys.stdout.flush()
    os._exit(0)  # to free a million objects one by one takes a second


def _convert_weights(gguf: Path, folder: Path) -> dict[str, str]:
    """Write the model's configuration and weights; return the versions of the libraries used."""
    import torch  # noqa: PLC0415 (only these processes need it)
    import transformers  # noqa: PLC0415

    _speed_up_gguf()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(gguf.parent),
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        attn_implementation="eager",
        trust_remote_code=False,
        **_build_quantization_arguments(gguf.name),
    )
    model.hf_quantizer = None  # save_pretrained refuses a model that has one
    for stale in ("quantization_config", "_model_name_or_path"):
        vars(model.config).pop(stale, None)
    model.save_pretrained(folder)
    for weights in folder.glob("*.safetensors"):  # which safetensors writes with the mode 0600
        weights.chmod((folder / "config.json").stat().st_mode)
    return {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "gguf": metadata.version("gguf"),
    }


def _convert_tokenizer(gguf: Path, folder: Path) -> None:
    import transformers  # noqa: PLC0415

    _speed_up_gguf()
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        str(gguf.parent), gguf_file=gguf.name, trust_remote_code=False
    )
    complete_tokenizer(tokenizer, gguf)
    tokenizer.save_pretrained(folder)


def _speed_up_gguf() -> None:
    """Make what reads a GGUF file in this process faster.

    transformers makes four readers. Each takes a million slices of the file to read a vocabulary, and a slice of
    numpy's memmap takes ten times as long as one of an array. So all are one, over a plain array. Weights are
    dequantized in large pieces on all cores, not 16 rows at a time on one.
    """
    import numpy as np  # noqa: PLC0415

    gguf: Any = import_module("gguf")
    gc.disable()  # a vocabulary is a million small objects, and none of them is garbage before the end

    class Reader(gguf.GGUFReader):  # type: ignore[misc]
        @property
        def data(self) -> Any:
            return self._data

        @data.setter
        def data(self, mapped: Any) -> None:
            self._data = np.asarray(mapped)

    threads = ThreadPoolExecutor(os.cpu_count())
    dequantize = gguf.dequantize

    def in_pieces(data: Any, kind: Any) -> Any:
        rows = np.asarray(data).reshape(-1, data.shape[-1])
        starts = range(0, len(rows), _ROWS)

        def one(start: int) -> None:
            piece = rows[start : start + _ROWS]
            out[start : start + _ROWS] = dequantize(piece.reshape(1, -1), kind).reshape(len(piece), -1)

        width = dequantize(rows[:1], kind).shape[-1]
        out = np.empty((len(rows), width), dtype=np.float32)
        list(threads.map(one, starts))
        return out.reshape(*data.shape[:-1], width)

    reader = cache(Reader)
    gguf.GGUFReader = lambda path: reader(str(path))
    gguf.dequantize = in_pieces
    gguf.get_tensor_name_map = cache(gguf.get_tensor_name_map)  # asked for once for each tensor


def _build_quantization_arguments(filename: str) -> dict[str, Any]:
    """Return the argument that asks for dense weights. Older transformers always dequantize and do not know it."""
    import transformers  # noqa: PLC0415

    if not hasattr(transformers, "GgufConfig"):
        return {}
    return {"quantization_config": transformers.GgufConfig(gguf_file=filename, dequantize=True)}


if __name__ == "__main__":
    main()
