"""What an interrupted headline run has measured, so that the same command goes on with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Store:
    """Results by key, each written to `file` as a line as soon as it is there; `file` is None to keep none.

    The first line says what was measured. A file that says something else is started again.
    """

    def __init__(self, file: Path | None, identity: Mapping[str, Any]) -> None:
        self._file = file
        self._results: dict[str, Any] = {}
        head = json.dumps(identity, sort_keys=True)
        if file is None:
            return
        lines = file.read_text("utf-8").split("\n") if file.exists() else []
        if lines and lines[0] == head:
            # The last line is empty, or was being written when the process was killed.
            self._results = dict(json.loads(line) for line in lines[1:-1])
        whole = [head, *(json.dumps(entry) for entry in self._results.items())]
        file.write_text("\n".join(whole) + "\n", "utf-8")

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: str) -> Any:
        """Return a result, None if it is not there."""
        return self._results.get(key)

    def put(self, key: str, result: Any) -> None:
        """Keep a result."""
        self._results[key] = result
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps([key, result]) + "\n")

    def discard(self) -> None:
        """Remove the file: the run is complete."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)
