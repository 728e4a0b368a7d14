"""The worker runs this file as a program to learn about an interpreter: where it lies, and the names it defines."""

from __future__ import annotations

import builtins
import collections
import datetime
import decimal
import fractions
import json
import os
import re
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

ATTRIBUTE_TYPES = (
    *(int, float, complex, str, bytes, bytearray, memoryview, tuple, list, dict, set, frozenset, range),
    *(collections.Counter, collections.OrderedDict, collections.defaultdict, collections.deque),
    *(decimal.Decimal, fractions.Fraction, types.GeneratorType, re.Match, re.Pattern),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone),
    *(OSError, SystemExit, SyntaxError, UnicodeError, UnicodeDecodeError, ImportError, AttributeError, NameError),
)
"""The types of which a test may use attributes: the checker has values of these types itself."""


def collect_facts() -> dict[str, Any]:
    """The facts that `interpreter.find_interpreter` reads, as JSON data."""
    values = vars(builtins)
    return {
        "executable": os.path.realpath(sys.executable),
        "version": list(sys.version_info[:3]),
        "paths": [
            sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(sys.base_prefix) / "lib")
        ],
        "names": {
            "builtins": list(values),
            "callables": [name for name, value in values.items() if callable(value)],
            "exceptions": [
                name for name, value in values.items() if isinstance(value, type) and issubclass(value, BaseException)
            ],
            "modules": list(getattr(sys, "stdlib_module_names", ())),
            "attributes": list({name for kind in ATTRIBUTE_TYPES for name in dir(kind)}),
        },
    }  # fmt: skip


if __name__ == "__main__":
    sys.stdout.write(json.dumps(collect_facts()))
