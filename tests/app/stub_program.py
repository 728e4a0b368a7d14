"""A program that serves as an engine: `python -m tests.app.stub_program PORT [BEHAVIOUR] [FILE]`.

It solves the tasks of the dataset `additions`. BEHAVIOUR: `child` starts a process that ignores SIGTERM, and writes its
id into FILE; `dies` ends itself after the third task; `changes` writes other texts.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.app.stub_server import DONE, Reply, choice, event, serve_stub, tokens

IGNORING = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


def tell(line: str) -> None:
    """Write a line to standard output at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until SIGTERM."""
    port, behaviour, *files = *sys.argv[1:], ""
    asked = []
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    if behaviour == "child":
        child = subprocess.Popen([sys.executable, "-c", IGNORING], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()  # it ignores the signal from here on
        Path(files[0]).write_text(str(child.pid))

    def answer(reply: Reply, body: dict) -> None:
        if "stop" in body and body["max_tokens"] > 2:
            asked.append(body)
        if behaviour == "dies" and len(asked) == 3:
            tell("out of memory: giving up")
            os._exit(4)
        text = "    return a + b" + (" + 0" if behaviour == "changes" else "") + "\n"
        reply.start().write(*(event(choice(text, "stop", i, tokens(text))) for i in range(body.get("n", 1))), DONE)

    pages = {"/v1/models": {"data": [{"id": "m"}]}, "/health": "ok"}
    with serve_stub(answer, pages=pages, port=int(port)):
        tell(f"serving on {port}")
        over.wait()


if __name__ == "__main__":
    main()
