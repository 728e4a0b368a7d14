"""Checks large dataset files in a process of their own.

Checking compiles every program of a file. In the process that decodes, this would slow the decoding down, and the clock
would count it as the engine's own work. The clock sees other processes, and marks tasks that they disturb
(docs/clock.md).
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from evaluation.dataset_files import decode_dataset_text, parse_dataset, read_tasks, write_dataset
from evaluation.datasets import Dataset, DatasetError, LeftOutTask, Task
from evaluation.formats import registry

MAX_CHARS_HERE = 2**19
"""Characters. A file of this size, some hundred tasks, takes about as long as a new process needs to start."""
_ROOT = Path(__file__).resolve().parents[1]
_SERVE = "from evaluation.dataset_process import serve; serve()"
_REFUSED = 3


def parse_dataset_apart(data: bytes, name: str, origin: str) -> Dataset:
    """The same as `dataset_files.parse_dataset`; a large file is checked in a process of its own."""
    text = decode_dataset_text(data, origin)
    if len(text) <= MAX_CHARS_HERE:
        return parse_dataset(data, name, origin)
    tasks, left_out = _parse_tasks_apart(text, origin)
    return Dataset(name, tasks, hashlib.sha256(data).hexdigest(), left_out)


def _parse_tasks_apart(text: str, origin: str) -> tuple[tuple[Task, ...], tuple[LeftOutTask, ...]]:
    # The service's variables hold secrets: pass none but the one that some interpreters need to start.
    needed = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-s", "-P", "-B", "-c", _SERVE],
        input=f"{json.dumps(origin)}\n{text}".encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
        env={**needed, "PYTHONPATH": str(_ROOT), "PYTHONUTF8": "1"},
    )  # fmt: skip
    if done.returncode == _REFUSED:
        raise DatasetError(done.stdout.decode())
    if done.returncode:
        raise DatasetError(f"{origin} cannot be checked: Python's parser failed on one of its programs, split the file")
    left_out, *lines = done.stdout.splitlines()
    return (
        tuple(registry.to_task(json.loads(line)) for line in lines),
        tuple(LeftOutTask(*fields) for fields in json.loads(left_out)),
    )


def serve() -> None:
    """The process: reads the name of a file and its text, writes what it leaves out and its tasks, or why not."""
    origin, text = sys.stdin.buffer.read().decode().split("\n", 1)
    try:
        tasks, left_out = read_tasks(text, json.loads(origin))
    except DatasetError as error:
        sys.stdout.buffer.write(str(error).encode("utf-8", "replace"))
        sys.exit(_REFUSED)
    fields = [(each.task_id, each.reason) for each in left_out]
    sys.stdout.buffer.write(f"{json.dumps(fields)}\n".encode() + write_dataset(tasks))
