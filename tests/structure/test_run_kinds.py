"""What depends on why a run exists is in a policy (docs/jobs.md): hardly any other code compares kinds."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DECLARED = {"app/core/states.py", "app/runs/models.py"}
ASKED = {
    "app/runs/hidden_runs.py",
    "app/runs/service.py",
    "app/runs/import_samples.py",
    "app/runs/documents.py",
}


def test_the_kind_of_a_run_is_named_in_few_files():
    found = {str(file.relative_to(ROOT)) for file in (ROOT / "app").rglob("*.py") if "RunKind" in file.read_text()}
    assert found == DECLARED | ASKED
