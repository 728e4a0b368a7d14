"""Where toolchains and compiled answers may be."""

import json
import shutil
import subprocess
import sys

import pytest

from evaluation.languages.base import ToolchainError
from evaluation.languages.go import toolchain

_FIND = """
from evaluation.languages import toolchain_search
from evaluation.languages.base import ToolchainError
try:
    print(toolchain_search.prepare_folder("test", lambda folder: None))
except ToolchainError as error:
    print(error)
"""


@pytest.mark.parametrize("option", ["exec", "noexec"])
def test_a_folder_where_no_program_can_run_is_refused_in_one_sentence(tmp_path, option):
    mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=2m,{option} none {tmp_path}"
    if not shutil.which("unshare") or subprocess.run([*mounted, mount], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    command = [*mounted, f'{mount} && exec "$@"', "sh", sys.executable, "-c", _FIND]
    said = subprocess.run(command, env={"TMPDIR": str(tmp_path)}, check=True, capture_output=True, text=True).stdout
    assert said.startswith(f"{tmp_path}/bassline-test-" if option == "exec" else f"no program can run in {tmp_path} (n")


@pytest.mark.parametrize(
    ("version", "why"), [("devel", "does not say its version"), ("go1.9rc1", "is version 1.9"), ("go1.27rc1", None)]
)
def test_a_go_that_is_no_release_is_taken_by_its_numbers(monkeypatch, version, why):
    facts = json.dumps({"GOROOT": "/go", "GOVERSION": version})
    monkeypatch.setattr(toolchain.toolchain_search, "run_tool", lambda *_: facts)
    monkeypatch.setattr(toolchain, "_find_wheel", lambda: "/go/bin/go")
    if why is None:
        assert toolchain._find_go() == ("/go/bin/go", "/go", "1.27rc1")
    else:
        with pytest.raises(ToolchainError, match=why):
            toolchain._find_go()
