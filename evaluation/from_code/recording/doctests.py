"""Runs the doctests of modules, named as arguments, in the project's interpreter. Exit code 1 if an example failed."""

from __future__ import annotations

import doctest
import importlib
import os
import sys


def main(names: list[str]) -> int:
    """Imports each module and runs the examples in its docstrings; one that cannot be imported counts as failed."""
    failed = attempted = 0
    for name in names:
        try:
            module = importlib.import_module(name)
        except BaseException as error:
            sys.stdout.write(f"{name} cannot be imported: {type(error).__name__}: {error}\n")
            failed += 1
            continue
        result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        failed, attempted = failed + result.failed, attempted + result.attempted
        sys.stdout.flush()
    sys.stdout.write(f"{attempted} examples of doctests, {failed} failed{os.linesep}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
