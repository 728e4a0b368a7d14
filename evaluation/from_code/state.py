"""The state of an unfinished dataset on disk, so that a killed run can be resumed."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evaluation.from_code.build import TaskResult
from evaluation.from_code.calls.record import Recording
from evaluation.from_code.calls.recorded import RecordedCall
from evaluation.from_code.project_tests.covering import CallsByTest


class BuildState:
    """The work done so far: the recording and the results of functions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writing = threading.Lock()
        self._made = folder / "made.jsonl"

    def load_recording(self) -> Recording | None:
        """The recording, if it was finished."""
        found = self._read("recording.json")
        if found is None:
            return None
        found["calls"] = {key: [_parse_call(row) for row in rows] for key, rows in found["calls"].items()}
        found["covering"] = CallsByTest(**found["covering"])
        return Recording(**found)

    def save_recording(self, recording: Recording) -> None:
        """Store a finished recording."""
        self._write("recording.json", asdict(recording))

    def load_results(self) -> dict[str, TaskResult]:
        """The results of finished functions, by key."""
        try:
            lines = self._made.read_text("utf-8").splitlines()
        except OSError:
            return {}
        found: dict[str, TaskResult] = {}
        for line in lines:
            try:
                each = TaskResult(**json.loads(line))
            except (ValueError, TypeError):  # the process was killed while it wrote
                continue
            found[each.key] = each
        return found

    def add_result(self, made: TaskResult) -> None:
        """Store the result of one function. Safe to call from several threads."""
        with self._writing, self._made.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(asdict(made)))  # a line that was cut off does not spoil this one

    def remove(self) -> None:
        """Delete everything, once the dataset is stored."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self.folder / name).read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def _write(self, name: str, content: Any) -> None:
        partial = self.folder / f".{name}.{os.getpid()}"
        partial.write_text(json.dumps(content), "utf-8")
        partial.replace(self.folder / name)


def _parse_call(row: dict[str, Any]) -> RecordedCall:
    return RecordedCall(**{**row, "raised": tuple(row["raised"])})
