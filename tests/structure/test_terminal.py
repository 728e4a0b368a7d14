"""Commands write to the terminal through app/core/terminal.py alone, which never obeys hostile text."""

from __future__ import annotations

import re
from pathlib import Path

import app.cli

AROUND = re.compile(r"click\.s?echo\(|(?<![.\w])print\(|(?<!\w)Console\(|from_markup|sys\.std(out|err)\.write")
STARTS_SERVERS = "serve.py"  # prints its own words only


def test_no_command_writes_around_it():
    (folder,) = app.cli.__path__
    for file in Path(folder).glob("*.py"):
        if file.name != STARTS_SERVERS:
            found = [line for line in file.read_text("utf-8").splitlines() if AROUND.search(line)]
            assert found == [], file.name
