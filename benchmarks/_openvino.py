"""OpenVINO GenAI in this process, on a model that `optimum-cli export openvino` wrote."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks._speed import TOP_P, Speed


class OpenVino:
    """A pipeline that decodes n samples of a prompt in one batch with a shared prompt."""

    def __init__(self, folder: Path, n_threads: int) -> None:
        """Raises ImportError where openvino-genai is not installed, and RuntimeError if it cannot load the folder."""
        import openvino_genai  # noqa: PLC0415

        self._pipeline: Any = openvino_genai.LLMPipeline(str(folder), "CPU", INFERENCE_NUM_THREADS=n_threads)
        self._tokenizer = self._pipeline.get_tokenizer()
        self.run("def add(a, b):\n", 2, 0.2, 4)

    def run(self, prompt: str, n: int, temperature: float, max_tokens: int) -> Speed:
        """Decode n samples of one prompt."""
        config = self._pipeline.get_generation_config()
        config.max_new_tokens = max_tokens
        config.num_return_sequences = n
        config.do_sample = temperature > 0
        config.temperature, config.top_p = temperature or 1.0, TOP_P
        started = time.perf_counter()
        tokens = self._tokenizer.encode(prompt, add_special_tokens=False)
        done = self._pipeline.generate(tokens, config)
        return Speed(sum(len(sample) for sample in done.tokens), time.perf_counter() - started)
