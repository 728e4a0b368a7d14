"""Another engine: llama.cpp, by llama-cpp-python where it is installed, on the GGUF file that a model was made from."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._arms import TOP_P, Speed
from decoding.models import registry, sources
from decoding.models.errors import NoSourceError, SourceError, WrongHashError
from decoding.models.registry import KnownModel

_PROGRAM = Path(__file__).with_name("_llamacpp_process.py")
_OPENMP_PREFIXES = ("OMP_", "GOMP_", "KMP_")


class EngineError(RuntimeError):
    """llama.cpp failed; the message says how."""


class LlamaCpp:
    """A process that decodes n samples of a prompt in one batch with a shared prompt."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        """`log` gets what the process writes on standard error. Raises EngineError if it cannot load the model."""
        self._process, self._log = process, log
        self.version = str(self._read_line()["version"])
        self.run("def add(a, b):\n", 1, 0.2, 4)  # a process started for one sample cannot decode two

    def run(self, prompt: str, n: int, temperature: float, max_tokens: int) -> Speed:
        """Decode n samples of one prompt. Raises EngineError if the process has ended."""
        request = {"prompt": prompt, "n": n, "temperature": temperature, "top_p": TOP_P, "max_tokens": max_tokens}
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then it gives no answer either
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        done = self._read_line()
        return Speed(done["tokens"], done["seconds"], first_s=done["first_s"])

    def _read_line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = self._log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
            raise EngineError(f"llama.cpp ended with status {self._process.wait()}: {said}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def find_obstacle(device: str) -> str | None:
    """Return why llama.cpp cannot run on a device, None if it can."""
    if device != "cpu":
        return "it is compared on CPUs"
    return None if importlib.util.find_spec("llama_cpp") else "llama-cpp-python is not installed"


@contextmanager
def run_llamacpp(model: str, n_threads: int, n_samples: int) -> Iterator[LlamaCpp]:
    """Run llama.cpp on a registered model for up to `n_samples` samples. Raises NoSourceError and EngineError."""
    with tempfile.TemporaryDirectory() as folder:
        file = _fetch_gguf(model, Path(folder))
        command = [sys.executable, str(_PROGRAM), str(file), str(n_threads), str(n_samples)]
        own = {name: value for name, value in os.environ.items() if not name.startswith(_OPENMP_PREFIXES)}
        log = Path(folder) / "log"
        with (
            log.open("w") as errors,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=own
            ) as process,
        ):
            try:
                yield LlamaCpp(process, log)
            finally:
                process.kill()


def _fetch_gguf(ref: str, folder: Path) -> Path:
    """Fetch the GGUF file of a registered model into a folder, from the first source that works.

    Raises ValueError for a model that is not in the registry, and NoSourceError.
    """
    model = registry.resolve(ref)
    if not isinstance(model, KnownModel):
        raise ValueError(f"{ref} is not a model of the registry: only registered models come as GGUF")
    for source in model.sources:
        with contextlib.suppress(SourceError, WrongHashError):
            return sources.download(source, model, folder, None)
    raise NoSourceError(f"{model.name} could not be fetched from any source")
