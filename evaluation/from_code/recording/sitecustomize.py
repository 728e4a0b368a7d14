"""Python imports a module of this name when it starts; this one starts the recording, then gives way.

It is copied, beside this package, into a folder that comes first on PYTHONPATH.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys


def _start() -> None:
    folder = os.path.dirname(os.path.realpath(__file__))
    try:
        from bassline_recording import hook  # type: ignore[import-not-found]  # noqa: PLC0415

        with open(os.environ["BASSLINE_RECORDING"], encoding="utf-8") as file:
            plan = json.load(file)
        hook.install_recorder(plan)
    finally:
        sys.path[:] = [path for path in sys.path if os.path.realpath(path or ".") != folder]
    # The environment may have its own module of this name, which Python did not reach.
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_start()
