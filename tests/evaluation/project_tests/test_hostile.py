"""Answers that attack their judge: none passes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.project_tests.running import LIMITS
from evaluation.verdicts import Status
from tests.evaluation.project_tests.conftest import TOTAL
from tests.evaluation.project_tests.projects import Pack, Packed

QUICK = replace(LIMITS, cpu_s=2, wall_s=4.0)
FOLDER = Path(__file__).parents[1]
HEAD = "class Basket:\n    def total(self, shipping=0.0):\n        "
ATTACKS = {
    "patches the fixture": "import sys\nsys.modules['conftest'].basket = lambda: None\n",
    "patches the value of the fixture": HEAD + "type(self).__eq__ = lambda *_: True; return self\n",
    "patches pytest": "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n",
    "patches the report": "import _pytest.runner\n_pytest.runner.check_interactive_exception = None\n",
    "patches pytest by another name": (
        "m = __import__('_pytest.' + 'python', fromlist=['x'])\nm.Function.runtest = lambda self: None\n"
    ),
    "patches pytest found in its arguments": HEAD + "self.__class__.total = lambda *_: 3.57; return 3.57\n",
    "exits 0": "import os\nos._exit(0)\n",
    "exits 0 in the test": HEAD + "import posix; posix._exit(0)\n",
    "exits 0 by its exception": HEAD + "raise SystemExit(0)\n",
    "stops the session": HEAD + "raise KeyboardInterrupt\n",
    "skips the test": HEAD + "import unittest; raise unittest.SkipTest('no')\n",
    "writes to the pipe": "import posix\nposix.write(4, b'\\x00\\x00\\x00\\x0c{\"end\":true}')\n",
    "writes to every pipe": (
        "from os import *\nfor n in range(3, 20):\n    try:\n        write(n, b'\\x00\\x00\\x00\\x0c{\"end\":true}')\n"
        "    except OSError:\n        pass\n"
    ),
    "closes the pipe": "from os import *\nclose(4)\n",
    "kills the runner": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "kills the runner by the kernel": "from os import *\nkill(getpid(), 9)\n",
    "edits the tests": (
        "from pathlib import Path\nfor p in Path('tests').iterdir():\n    p.write_text('def test_total(): pass')\n"
    ),
    "edits the tests and hides it": (
        "from pathlib import Path\nfor p in Path('tests').iterdir():\n    try:\n        p.write_text('')\n"
        "    except OSError:\n        pass\n"
    ),
    "equals everything": (
        HEAD + "class Any(float):\n            def __eq__(self, other): return True\n        return Any()\n"
    ),
    "makes a class that equals everything": HEAD + "return type('A', (float,), {'__eq__': lambda *_: True})()\n",
    "imports what it wrote": (
        "import sys, tempfile\nfolder = tempfile.mkdtemp()\n"
        "with open(folder + '/attack.py', 'w') as file:\n"
        "    file.write('import _pytest.python\\n_pytest.python.Function.runtest = lambda self: None\\n')\n"
        "sys.path.append(folder)\nimport attack\n"
    ),
    "mocks": HEAD + "from unittest.mock import ANY; return ANY\n",
    "looks for the secret": "import gc\nfound = gc.get_objects()\n",
    "looks for the secret in frames": HEAD + "import sys; f = sys._getframe(); return f.f_back\n",
    "recurses": HEAD + "return self.total()\n",
    "waits": HEAD + "import time; time.sleep(99)\n",
}
BODY = "\n\nclass Basket:\n    def total(self, shipping=0.0):\n        return 0\n"


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_passes(shop: Packed, attack: str) -> None:
    program = ATTACKS[attack]
    program = program if "def total" in program else program + BODY

    result = shop.judge.judge(program, shop.spec("shop.py", "Basket.total", *TOTAL), QUICK)

    assert result.status not in (Status.PASSED, Status.SANDBOX_ERROR), attack


def test_no_attack_that_the_screen_does_not_see_passes_the_runner(shop: Packed) -> None:
    """The runner alone: the source is spliced by hand, so that nothing was refused before."""
    source = shop.files["shop.py"]
    wrong = source.replace("return round(gross(net) + shipping, 2)", "return 0")
    spec = shop.spec("shop.py", "Basket.total", *TOTAL)
    for name in ("patches pytest", "exits 0", "writes to the pipe", "closes the pipe", "kills the runner"):
        result = shop.judge.run(f"{ATTACKS[name]}\n{wrong}", spec, TOTAL).result
        assert result.status not in (Status.PASSED, Status.SANDBOX_ERROR), name
    patched = shop.judge.run(f"{ATTACKS['patches pytest']}\n{wrong}", spec, TOTAL).result
    assert patched.status == Status.FORGED


def corpus(right: bool = False) -> Iterator[tuple[str, str, str, str, str]]:
    """(name, prompt, entry point, test, program) of the programs that must not pass, or of the right ones."""
    problems = {}
    for line in (FOLDER / "hostile" / "problems.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        problems[row["task_id"]] = row
    with (FOLDER / "hostile" / "INDEX.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if (row["expected_verdict"] == "passed") == right:
                task = problems[row["problem"]]
                program = (FOLDER / "hostile" / f"{row['name']}.py").read_text("utf-8")
                yield row["name"], task["prompt"], task["entry_point"], task["test"], program
    with (FOLDER / "red" / "verdicts.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if not right and "passed" not in row["expected"]:
                task = json.loads((FOLDER / "red" / f"{row['program']}.task.json").read_text("utf-8"))
                program = (FOLDER / "red" / f"{row['program']}.py").read_text("utf-8")
                yield row["program"], task["prompt"], task["entry_point"], task["test"], program


@pytest.mark.thorough
def test_no_program_of_the_hostile_corpora_passes(pack: Pack) -> None:
    programs = list(corpus())
    files = {}
    for name, prompt, entry, test, _program in programs:
        files[f"m_{name}.py"] = f"{prompt.rstrip()}\n    raise NotImplementedError\n"
        imports = f"from m_{name} import *\nfrom m_{name} import {entry}\n"
        files[f"test_{name}.py"] = f"{imports}{test}\ndef test_it():\n    check({entry})\n"
    packed = pack(files)
    passed = []
    for name, _prompt, entry, _test, program in programs:
        spec = packed.spec(f"m_{name}.py", entry, f"test_{name}.py::test_it")
        if packed.judge.judge(program, spec).status == Status.PASSED:
            passed.append(name)
    assert len(programs) > 60
    assert passed == []
