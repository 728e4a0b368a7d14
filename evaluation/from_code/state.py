"""The state of an unfinished dataset on disk, so that a killed run can be resumed."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

from evaluation.from_code.build import TaskResult
from evaluation.from_code.calls.record import Recording
from evaluation.from_code.calls.recorded import RecordedCall
from evaluation.from_code.project_tests.covering import CallsByTest


class BuildState:
    """The work done so far: the recording and the results of functions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made = folder / "made.jsonl"
        self._recording = folder / "recording.json"

    def load_recording(self) -> Recording | None:
        """The recording, if it was finished."""
        try:
            found = json.loads(self._recording.read_text("utf-8"))
        except (OSError, ValueError):  # not there, or damaged: the tests run again
            return None
        for rows in found["calls"].values():
            rows[:] = [RecordedCall(**{**row, "raised": tuple(row["raised"])}) for row in rows]
        found["covering"] = CallsByTest(**found["covering"])
        return Recording(**found)

    def save_recording(self, recording: Recording) -> None:
        """Store a finished recording."""
        partial = self.folder / f".recording.{os.getpid()}"
        partial.write_text(json.dumps(asdict(recording)), "utf-8")
        partial.replace(self._recording)

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
        """Store the result of one function."""
        with self._made.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(asdict(made)))  # a line that was cut off does not spoil this one

    def remove(self) -> None:
        """Delete everything, once the dataset is stored."""
        shutil.rmtree(self.folder, ignore_errors=True)
