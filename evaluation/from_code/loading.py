"""Loads our modules in a process without Bassline: its program carries their source."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from evaluation import from_code

_FOLDER = Path(str(from_code.__file__)).parent
_LOAD = """
import sys, types
def __bassline_load__(parts):
    for part, source in parts:
        name = "evaluation.from_code." + part
        package = name.rpartition(".")[0]
        for each in ("evaluation", "evaluation.from_code", package, name):
            if each not in sys.modules:
                module = sys.modules[each] = types.ModuleType(each)
                module.__path__ = []
        module.__package__ = package
        setattr(sys.modules[package], name.rpartition(".")[2], module)
        exec(compile(source, "<" + part + ">", "exec", dont_inherit=True), module.__dict__)
    return module
"""


@lru_cache(maxsize=8)
def build_loader(*parts: str) -> tuple[str, str]:
    """Build the statements that define the loader, and an expression that loads these modules and gives the last one.

    A part is the name of a module below `evaluation.from_code`; one that another part imports comes before it.
    """
    return _LOAD, f"__bassline_load__({[(part, read_part_source(part)) for part in parts]!r})"


def read_part_source(part: str) -> str:
    """Return the source of a module, named as in `build_loader`."""
    return _FOLDER.joinpath(*part.split(".")).with_suffix(".py").read_text("utf-8")
