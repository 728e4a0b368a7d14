"""`make check` runs the tests that mirror what changed."""

from __future__ import annotations

import pytest

from tests.changed import tests_of as mirrored


@pytest.mark.parametrize(
    ("files", "tests"),
    [
        (["app/core/settings.py"], ["tests/app/core/test_settings.py"]),
        (["app/leaderboard/frontier.py"], ["tests/app/leaderboard"]),
        (["decoding/acceptance/rule.py"], ["tests/decoding"]),
        (["evaluation/metrics.py", "evaluation/sandbox/guest.py"],
         ["tests/evaluation/sandbox", "tests/evaluation/test_metrics.py"]),
        (["app/runs/api.py", "tests/app/runs/test_that_is_gone.py"], ["tests/app/runs"]),
        (["tests/fakes.py", "README.md", "docs/jobs.md"], []),
        (["tests/app/world.py", "app/web/ui/units.py"], ["tests/app"]),
    ],
)  # fmt: skip
def test_each_file_stands_for_the_tests_that_mirror_it(files, tests):
    assert mirrored(files) == tests
