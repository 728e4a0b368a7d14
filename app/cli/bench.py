"""`bassline bench`."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from app.core.errors import BadInputError, BasslineError
from decoding.models.errors import ModelError
from decoding.suggest import build_advice


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("name")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(name: str, arguments: tuple[str, ...]) -> None:
    """Run a benchmark of benchmarks/; arguments after NAME are passed on (try `bassline bench NAME -h`).

    Example:
        bassline bench decode --json decode.json
    """
    known = _list_benchmarks()
    if name not in known:
        use = f"use one of {', '.join(known) or '(none are installed)'}"
        raise BadInputError(f"there is no benchmark {name!r}: {build_advice(name, known, use)}", "name")
    try:
        status = importlib.import_module(f"benchmarks.{name}").main(list(arguments))
    except ModelError as error:
        raise BadInputError(str(error)) from error
    if status:
        raise BasslineError(f"benchmark {name} failed with status {status}")


def _list_benchmarks() -> list[str]:
    """Names of the modules in benchmarks/ that have a main(argv)."""
    package = importlib.import_module("benchmarks")
    files = (file for folder in package.__path__ for file in Path(folder).glob("*.py"))
    return sorted(
        file.stem for file in files if not file.stem.startswith("_") and "def main(" in file.read_text("utf-8")
    )
