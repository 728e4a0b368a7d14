"""llama.cpp in a process of its own: a request is a line of JSON on standard input, an answer one on standard output.

Imports nothing of ours, because our package sets how OpenMP's threads wait, and llama.cpp has its own way. All samples
of a prompt share its keys and values and advance in one batch, as in llama-server.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import llama_cpp as lib

N_SLOTS = 16384
TOP_K = 40
"""llama-server's own default: the nucleus of all 152,000 tokens would take longer than the model."""


class Model:
    """A GGUF file and a context for `n_sequences` samples."""

    def __init__(self, file: str, n_threads: int, n_sequences: int) -> None:
        lib.llama_backend_init()
        self._model = lib.llama_model_load_from_file(file.encode(), lib.llama_model_default_params())
        params = lib.llama_context_default_params()
        params.n_ctx = params.n_batch = N_SLOTS
        params.n_seq_max, params.kv_unified = n_sequences, True
        params.n_threads = params.n_threads_batch = n_threads
        self._context = lib.llama_init_from_model(self._model, params)
        if not self._context:
            raise RuntimeError(f"llama.cpp cannot load {file}")
        self._vocab = lib.llama_model_get_vocab(self._model)
        self._memory = lib.llama_get_memory(self._context)
        self._batch = lib.llama_batch_init(N_SLOTS, 0, 1)

    def generate(self, prompt: str, n: int, temperature: float, top_p: float, max_tokens: int) -> dict[str, Any]:
        """Return the tokens of n samples, the seconds they took, and the seconds until the first had finished."""
        started = time.perf_counter()
        lib.llama_memory_clear(self._memory, True)
        tokens = self._tokenize(prompt.encode())
        self._decode([(token, place, 0) for place, token in enumerate(tokens)])
        for sample in range(1, n):
            lib.llama_memory_seq_cp(self._memory, 0, sample, -1, -1)
        samplers = [_build_sampler(temperature, top_p, seed) for seed in range(n)]
        length, first_s = [0] * n, None
        # Where the logits of each sample lie in the last batch; -1 is the end of the prompt.
        active = dict.fromkeys(range(n), -1)
        while active:
            following = []
            for sample, at in active.items():
                token = lib.llama_sampler_sample(samplers[sample], self._context, at)
                if not lib.llama_vocab_is_eog(self._vocab, token):
                    length[sample] += 1
                    if length[sample] < max_tokens:
                        following.append((token, len(tokens) + length[sample] - 1, sample))
                        continue
                first_s = first_s or time.perf_counter() - started
            active = {sample: i for i, (_, _, sample) in enumerate(following)}
            if following:
                self._decode(following)
        for sampler in samplers:
            lib.llama_sampler_free(sampler)
        return {"tokens": sum(length), "seconds": time.perf_counter() - started, "first_s": first_s}

    def _tokenize(self, text: bytes) -> list[int]:
        found = (lib.llama_token * (len(text) + 8))()
        n = lib.llama_tokenize(self._vocab, text, len(text), found, len(found), False, True)
        return list(found[:n])

    def _decode(self, entries: list[tuple[int, int, int]]) -> None:
        """Compute (token, position, sample) of a prompt, with logits for its last one, or of one token a sample."""
        batch, one_sample = self._batch, len({sample for _, _, sample in entries}) == 1
        batch.n_tokens = len(entries)
        for i, (token, position, sample) in enumerate(entries):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, position, 1, sample
            batch.logits[i] = not one_sample or i == len(entries) - 1
        if lib.llama_decode(self._context, batch):
            raise RuntimeError("llama.cpp failed to decode")


def _build_sampler(temperature: float, top_p: float, seed: int) -> Any:
    chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
    for step in (
        lib.llama_sampler_init_top_k(TOP_K),
        lib.llama_sampler_init_temp(temperature),
        lib.llama_sampler_init_top_p(top_p, 1),
        lib.llama_sampler_init_dist(seed),
    ):
        lib.llama_sampler_chain_add(chain, step)
    return chain


if __name__ == "__main__":
    model = Model(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps({"version": lib.__version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(model.generate(**json.loads(line))), flush=True)
