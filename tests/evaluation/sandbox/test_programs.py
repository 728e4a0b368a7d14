"""Programs of other toolchains: compiled and run in the sandbox, with Python standing in for a toolchain."""

import subprocess
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from evaluation.sandbox import (
    Command,
    Limits,
    ProgramEndedError,
    RunningProgram,
    Sandbox,
    Tools,
)
from evaluation.sandbox.programs import ProgramSlot
from tests.evaluation.sandboxes import sandbox_or_skip

LIMITS = Limits(cpu_s=1, wall_s=3.0)
ECHO = "import os\nfor line in os.fdopen(3): os.write(4, line.upper().encode())\n"


@pytest.fixture(params=["bwrap", "landlock"])
def sandbox(request):
    found = sandbox_or_skip(request.param)
    yield found
    found.close()


@pytest.fixture
def tools(sandbox):
    python = sandbox.python
    command = (python.executable, *python.build_flags())
    compiler = Command((*command, "compiler.py"), (("WHERE", "{folder}"),))
    limits = Limits(cpu_s=2, wall_s=5.0, threads=64)
    trees = (python.executable,)
    return Tools(Command((*command, "program.py")), trees, compiler, compile_limits=limits, folder_bytes=2**20)


def compiled(sandbox, tools, compiler, program=ECHO):
    """(exit code, output) of the compiler, then what the program answers to a line."""
    with sandbox.open_program_slot(tools) as slot:
        slot.write_files({"compiler.py": compiler, "source.txt": "text"})
        with RunningProgram(slot, tools.compile_limits, compiling=True) as step:
            step.wait()
        if step.exit_code:
            return step.exit_code, step.output.decode(), None
        slot.write_files({"program.py": program})
        with RunningProgram(slot, LIMITS) as running:
            return step.exit_code, step.output.decode(), running.ask(b"line\n")


def test_a_program_gets_its_slot_while_another_sandbox_is_tested(sandbox, tools):
    with ThreadPoolExecutor(1) as threads, Sandbox._detecting:
        waiting = threads.submit(compiled, sandbox, tools, "")
        done, _ = futures.wait([waiting], timeout=60)
    assert done


def test_a_program_answers_a_line_with_a_line(sandbox, tools):
    assert compiled(sandbox, tools, "") == (0, "", b"LINE")


def test_a_compiler_writes_in_its_folder_and_starts_processes_and_nothing_else(sandbox, tools):
    source = """
import os, socket
open(os.environ["WHERE"] + "/out", "w").write(open("source.txt").read())
if os.fork() == 0:
    os.rename("out", "renamed")
    os._exit(0)
os.wait()
print(sorted(os.listdir(".")), list(os.environ))
for attack in (lambda: open("/tmp/left", "w"), lambda: open("/etc/passwd"), socket.socket, lambda: os.symlink("/", "s"),
               os.setsid, lambda: os.kill(os.getppid(), 0)):
    try:
        attack()
        print("open")
    except OSError:
        pass
raise SystemExit(3)
"""
    code, output, _ = compiled(sandbox, tools, source)
    assert code == 3
    assert output.startswith("['compiler.py', 'renamed', 'source.txt']")
    assert "open" not in output


def test_a_program_cannot_write_where_its_compiler_could(sandbox, tools):
    program = """
import os
def works(attack):
    try:
        attack()
        return True
    except OSError:
        return False
attacks = lambda: open("out", "w"), lambda: os.unlink("program.py"), os.fork, lambda: os.mkdir("folder")
os.write(4, repr([works(attack) for attack in attacks]).encode() + b"\\n")
"""
    assert compiled(sandbox, tools, "", program)[2] == b"[False, False, False, False]"


EXCESSES = {
    "busy": "while True: pass",
    "sleep": "import time; time.sleep(60)",
    "memory": "x = []\nwhile True: x.append(bytearray(2**24))",
    "files": "for i in range(10**6): open(f'f{i}', 'wb').write(bytes(2**16))",
    "output": "while True: print('x' * 999)",
    "forks": "import os\nfor i in range(500):\n    if os.fork() == 0:\n        while True: pass",
}


@pytest.mark.thorough
@pytest.mark.parametrize("excess", EXCESSES)
def test_a_compiler_is_limited_and_its_slot_goes_on(sandbox, tools, excess):
    with sandbox.open_program_slot(tools) as slot:
        slot.write_files({"compiler.py": EXCESSES[excess]})
        compiler, reached = RunningProgram(slot, tools.compile_limits, compiling=True), False
        try:
            with compiler:
                compiler.wait()
        except ProgramEndedError:
            reached = True
        assert reached or compiler.exit_code != 0
        assert slot.measure_used_bytes() < 64 * 2**20
        slot.write_files({})
        assert slot.measure_used_bytes() == 0
    assert compiled(sandbox, tools, "")[2] == b"LINE"


def test_a_line_that_never_ends_and_a_program_that_ends_are_told_apart(sandbox, tools):
    endless = "import os\nwhile True: os.write(4, b'x' * 4096)\n"
    for program, status in ((endless, "forged"), ("", "crashed")):
        with pytest.raises(ProgramEndedError) as ended:
            compiled(sandbox, tools, "", program)
        assert ended.value.status == status


def test_a_zygote_that_does_not_end_keeps_no_other_and_no_folder(tmp_path):
    def never_end():
        raise subprocess.TimeoutExpired("bwrap", 10)

    closed = []
    folder = tmp_path / "job"
    folder.mkdir()
    runner, compiler = SimpleNamespace(close=never_end), SimpleNamespace(close=lambda: closed.append("compiler"))
    ProgramSlot(Tools(Command(())), folder, runner, compiler).close()
    assert closed == ["compiler"]
    assert not folder.exists()
