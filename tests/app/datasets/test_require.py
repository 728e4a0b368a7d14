"""A run over the built-in dataset reads its rows: the file is unpacked only to store them."""

from __future__ import annotations

from app.core.states import DatasetKind
from app.datasets import service


def test_a_stored_built_in_dataset_is_not_unpacked_again(ctx, monkeypatch):
    stored = service.require_dataset(ctx, "humaneval")
    assert (stored.kind, len(stored.tasks)) == (DatasetKind.BUILTIN, 164)

    def unpack(name):
        raise AssertionError("unpacked again")

    monkeypatch.setattr(service.dataset_files, "load_bundled_dataset", unpack)
    again = service.require_dataset(ctx, "humaneval")
    assert (again.id, [t.task_id for t in again.tasks]) == (stored.id, [t.task_id for t in stored.tasks])


def test_content_of_another_version_under_the_built_in_name_is_not_used(ctx):
    stored = service.require_dataset(ctx, "humaneval")
    with ctx.database.session() as session:
        session.get_one(type(stored), stored.id).sha256 = "0" * 64
    assert service.require_dataset(ctx, "humaneval").id != stored.id
