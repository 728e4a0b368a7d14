"""Recording in the sandbox: the same calls as outside, and nothing of this machine is read or written."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluation.from_code.calls import confined
from evaluation.from_code.calls.confined import Confinement
from evaluation.from_code.calls.record import record_calls
from evaluation.from_code.reasons import ProjectError
from evaluation.from_code.source.find import find_functions
from evaluation.sandbox.tiers import Tier
from tests.evaluation.from_code.wheels import PYTEST, copy_distributions

SHOP = """
def total(prices, tax):
    \"\"\"The sum of the prices with tax.\"\"\"
    whole = sum(prices)
    return whole + whole * tax
"""
TESTS = """
import pytest
from shop import total

@pytest.mark.parametrize("prices", [[], [1], [2, 3]])
def test_total(prices, tmp_path):
    (tmp_path / "note").write_text("x")
    assert total(prices, 0) == sum(prices)
"""


@pytest.fixture(scope="session")
def confinement(sandbox) -> Iterator[Confinement]:
    if not sandbox.tier.namespaces:
        pytest.skip("no bubblewrap here")
    with public_folder() as folder:
        yield Confinement(sandbox, copy_distributions(PYTEST, folder / "site-packages"))


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that the sandbox's user may enter; pytest's own are for their owner alone."""
    with public_folder() as folder:
        yield folder


@contextmanager
def public_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def recorded(opened, confinement, tests, tmp_path, limit_s=60.0, **files):
    project = opened({"shop.py": SHOP, "test_shop.py": tests, **files})
    command = confinement.resolve("python -m pytest -q -p no:cacheprovider")
    return record_calls(
        project, find_functions(project), [command], tmp_path / "record", limit_s, confinement=confinement
    )


def test_calls_are_recorded_as_outside(opened, confinement, tmp_path):
    inside = recorded(opened, confinement, TESTS, tmp_path)
    assert (inside.exit_code, inside.unread) == (0, {}), inside.output
    project = opened()
    outside = record_calls(
        project, find_functions(project), [[sys.executable, "-m", "pytest", "-q"]], tmp_path / "other", 60.0
    )
    assert inside.calls == outside.calls
    assert len(inside.calls["shop.py:total:2"]) == 3
    assert inside.covering.tests == outside.covering.tests
    assert inside.covering.path == [str(confinement.packages)]


HOSTILE = """
import json, os, socket
from shop import total

def test_total():
    found = {}
    for name, attempt in {
        "secret": lambda: os.environ["BASSLINE_SECRET"],
        "host": lambda: open("SECRET").read(),
        "project": lambda: open("PROJECT/shop.py", "w"),
        "network": lambda: socket.create_connection(("127.0.0.1", 1), 1),
        "link": lambda: os.symlink("SECRET", os.path.join(os.environ["TMPDIR"], "link")),
        "kill": lambda: os.kill(1, 9),
    }.items():
        try:
            attempt()
            found[name] = "open"
        except Exception as error:
            found[name] = type(error).__name__
    total([1], 0)
    plan = json.load(open(os.environ["BASSLINE_RECORDING"]))
    open(plan["seen"] + "/forged.jsonl", "w").write(json.dumps(
        {"modules": ["SECRET"], "path": ["/usr/lib/python3/dist-packages", "/etc"], "python": [3]}) + chr(10))
    print("FOUND", json.dumps(found))
    assert False
"""


def test_nothing_of_this_machine_is_read_or_written(opened, confinement, tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text("token")
    secret.chmod(0o644)
    monkeypatch.setenv("BASSLINE_SECRET", "token")
    tests = HOSTILE.replace('"SECRET"', f'"{secret}"').replace("PROJECT", str(tmp_path / "shop"))
    found = recorded(opened, confinement, tests, tmp_path)
    line = next(line for line in found.output.splitlines() if line.startswith("FOUND "))
    assert set(json.loads(line.removeprefix("FOUND ")).values()) <= {"KeyError", "FileNotFoundError", "PermissionError",
                                                                     "OSError"}  # fmt: skip
    assert found.covering.path == [str(confinement.packages)], "no other folder's packages are taken along"
    assert (tmp_path / "shop" / "shop.py").read_text() == SHOP


def test_tests_that_wait_or_flood_are_ended(opened, confinement, tmp_path, monkeypatch):
    slow = "import time\nfrom shop import total\n\ndef test_total():\n    total([1], 0)\n    time.sleep(600)\n"
    assert recorded(opened, confinement, slow, tmp_path, limit_s=2.0).exit_code is None
    monkeypatch.setattr(confined, "_FOLDER_BYTES", 2**20)
    flood = (
        "import os\n\ndef test_it(tmp_path):\n    while True:\n"
        "        (tmp_path / os.urandom(4).hex()).write_text('x' * 99999)\n"
    )
    assert "1 MiB" in recorded(opened, confinement, flood, tmp_path).output


def test_what_the_sandbox_cannot_start_is_refused_with_the_remedy(confinement):
    assert confinement.resolve("pytest -q")[1:] == ["-m", "pytest", "-q"]
    for command in ("tox", "", "'"):
        with pytest.raises(ProjectError, match="command of the tests"):
            confinement.resolve(command)


def test_without_bubblewrap_nothing_of_the_project_runs(opened, confinement, tmp_path):
    sandbox = SimpleNamespace(tier=Tier("landlock"), tier_name="landlock", python=confinement.sandbox.python)
    with pytest.raises(ProjectError, match="only in the sandbox's tier bwrap"):
        recorded(opened, replace(confinement, sandbox=sandbox), TESTS, tmp_path)
