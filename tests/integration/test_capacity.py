"""Load tests on both databases: a stored one reads as it was written."""

from __future__ import annotations

from app.capacity import service
from app.capacity.documents import document
from app.capacity.repository import get_load_test, list_load_tests
from app.capacity.schemas import LoadTestSpec
from tests.load_tests import load_test


def test_a_load_test_reads_as_it_was_written_newest_first(ctx):
    spec = LoadTestSpec.model_validate(load_test(seed=2**62, machine={"cpu_count": 2, "cpu": "a \u201cchip\u201d"}))
    first = service.store(ctx, spec)
    second = service.store(ctx, spec.model_copy(update={"name": "second"}))
    with ctx.database.read() as session:
        found = document(get_load_test(session, first))
        assert [row.id for row in list_load_tests(session)] == [second, first]
        assert [row.id for row in list_load_tests(session, before=second)] == [first]
    assert (found.settings, found.idle, tuple(found.points)) == (spec.settings, spec.idle, spec.points)
    assert found.capacity == 0.5
