"""The page of a dataset made from code: what share of the project became tasks, and what would make more."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from app.datasets.service import import_bytes
from tests.fakes import RIGHT

pytestmark = pytest.mark.browser

COVERAGE = {
    "functions_seen": 9, "functions_called": 4, "tasks": 2, "functions_covered": 2, "covered_share": 0.5,
    "lines_seen": 90, "lines_called": 40, "lines_of_tasks": 30, "lines_share": 0.75,
    "left_out": [
        {"reason": "was not called while the tests ran", "functions": 5, "unlock": "tests that call it, or --doctests"},
        {"reason": "has <b>no</b> body of its own", "functions": 2, "unlock": ""},
    ],
}  # fmt: skip
LEFT_OUT = [{"file": "shop.py", "function": "pay", "line": 4, "reason": "was not called", "detail": ""}]


def _row(name: str, **source: object) -> dict[str, object]:
    known = {"file": "shop.py", "line": 12, "mutation_score": 0.9, "weak": False, **source}
    return {
        "task_id": f"shop/{name}", "prompt": "def add(a, b):\n", "entry_point": "add", "source": known,
        "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n", "canonical_solution": RIGHT,
    }  # fmt: skip


def test_a_team_lead_reads_the_coverage_and_what_would_unlock_more(live_service, page):
    rows = [_row("total", cases=7, judge="cases"), _row("pay", tests=3, judge="tests", mutation_score=0.6, weak=True)]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    import_bytes(live_service.ctx, data, "shop", "shop.jsonl", LEFT_OUT, COVERAGE)
    page.goto(live_service.url + "/datasets")
    page.get_by_role("link", name="shop", exact=True).click()

    coverage = page.get_by_role("region", name="Coverage")
    expect(coverage).to_contain_text("2 of the 4 functions that the project's tests call became tasks")
    expect(coverage).to_contain_text("50 %")
    table = page.get_by_role("region", name="Functions left out, by reason")
    expect(table).to_be_hidden()
    coverage.get_by_text("Why the others are not tasks").click()
    expect(table.get_by_role("row")).to_have_count(3)
    expect(table.get_by_role("row", name="was not called")).to_contain_text("tests that call it, or --doctests")
    expect(table.get_by_role("rowheader", name="has <b>no</b> body of its own")).to_be_visible()

    tasks = page.get_by_role("region", name="Tasks")
    total, pay = (tasks.get_by_role("row").filter(has_text=f"shop/{name}") for name in ("total", "pay"))
    expect(total).to_contain_text("7 recorded calls")
    expect(pay).to_contain_text("3 tests")
    expect(pay).to_contain_text("60 % weak")
    page.get_by_role("link", name="1 function left out").click()
    expect(page.get_by_role("main")).to_contain_text("pay")
