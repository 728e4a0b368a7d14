"""Loads our modules in a process without Bassline: its program carries their source, and their code for a process of
the same Python, since compiling them takes longer than most calls."""

from __future__ import annotations

import base64
import marshal
import warnings
from functools import lru_cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from evaluation import from_code

_FOLDER = Path(str(from_code.__file__)).parent
_LOAD = f"""
import sys, types
from base64 import b64decode
from importlib.util import MAGIC_NUMBER
from marshal import loads
def __bassline_compile__(source, file, code):
    if code and MAGIC_NUMBER == {MAGIC_NUMBER!r}:
        return loads(b64decode(code))
    return compile(source, file, "exec", dont_inherit=True)
def __bassline_load__(parts):
    for part, source, code in parts:
        name = "evaluation.from_code." + part
        package = name.rpartition(".")[0]
        for each in ("evaluation", "evaluation.from_code", package, name):
            if each not in sys.modules:
                module = sys.modules[each] = types.ModuleType(each)
                module.__path__ = []
        module.__package__ = package
        setattr(sys.modules[package], name.rpartition(".")[2], module)
        exec(__bassline_compile__(source, "<" + part + ">", code), module.__dict__)
    return module
"""
warnings.filterwarnings("ignore", category=SyntaxWarning, module=r"/project/|<candidate>")


@lru_cache(maxsize=8)
def build_loader(*parts: str) -> tuple[str, str]:
    """Build the statements that define the loader, and an expression that loads these modules and gives the last one.

    A part is the name of a module below `evaluation.from_code`; one that another part imports comes before it. The
    statements also define `__bassline_compile__(source, file, code)`, which gives the code of a module.
    """
    sources = [(part, read_part_source(part)) for part in parts]
    return _LOAD, f"__bassline_load__({[(part, text, compile_to_text(text, f'<{part}>')) for part, text in sources]!r})"


@lru_cache(maxsize=512)
def compile_to_text(source: str, file: str) -> str:
    """Return a module's code as text; "" for a source that does not compile."""
    try:
        code = compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return base64.b64encode(marshal.dumps(code)).decode()


def read_part_source(part: str) -> str:
    """Return the source of a module, named as in `build_loader`."""
    return _FOLDER.joinpath(*part.split(".")).with_suffix(".py").read_text("utf-8")
