"""Archived runs leave the leaderboard and the answer above it; a note reads no samples."""

from __future__ import annotations

import re

import pytest

from app.runs.repository import find_run
from tests.app.leaderboard.test_leaderboard import selects


@pytest.fixture
def note(world):
    """Changes a run or a study by its path."""

    def send(path: str, **changes: object) -> None:
        assert world.client.patch(f"/api/v1/{path}", json=changes).status_code == 200

    return send


@pytest.fixture
def three(world, note):
    """Ranked runs `best`, `middle` and `quick`; the ids by name."""
    settings = (("best", 0.9, 3.0), ("middle", 0.5, 2.0), ("quick", 0.1, 0.5))
    return {name: world.add_run(name, limit=None, n=1, skill=skill, pace=pace) for name, skill, pace in settings}


def ranks(world, query: str = "") -> dict[str, int | None]:
    return {row["name"]: row["rank"] for row in world.client.get(f"/api/v1/leaderboard?{query}").json["rows"]}


def best_run(world) -> str:
    """The run that the first page shows for its only model."""
    page = world.client.get("/?budget=10").get_data(as_text=True)
    (run_id,) = re.findall(r'<tr data-run="([^"]+)" class="used">', page)
    return run_id


def test_an_archived_run_leaves_the_leaderboard_and_its_rank(world, three, note):
    note(f"runs/{three['best']}", archived=True)
    assert ranks(world) == {"middle": 1, "quick": 2}
    assert ranks(world, "archived=1") == {"best": 1, "middle": 2, "quick": 3}
    assert best_run(world) == str(three["middle"])
    note(f"runs/{three['best']}", archived=False)
    assert ranks(world) == {"best": 1, "middle": 2, "quick": 3}


def test_a_change_of_annotations_computes_no_answer_again(world, three, note):
    world.client.get("/")
    note(f"runs/{three['quick']}", note="new")
    with selects(world) as sent:
        world.client.get("/")
    assert not any("samples" in statement for statement in sent)


def test_an_archived_study_gives_no_answer(world, note):
    arms = {"limit": 30, "n": 1}
    world.add_study(arms | {"name": "a", "skill": 0.9}, arms | {"name": "b", "skill": 0.2}, name="older")
    newer = world.add_study(arms | {"name": "c", "skill": 0.9}, arms | {"name": "d", "skill": 0.2}, name="newer")
    assert ">newer</a>" in world.client.get("/").get_data(as_text=True)
    note(f"studies/{newer}", archived=True)
    page = world.client.get("/").get_data(as_text=True)
    assert ">older</a>" in page
    assert ">newer</a>" not in page


def test_an_archived_arm_is_not_recommended_but_stays_in_its_study(world, note):
    arms = {"limit": 60, "n": 1, "pace": 0.5}
    study = world.add_study(arms | {"name": "strong", "skill": 1.0}, arms | {"name": "weak", "skill": 0.3})
    with world.context.database.read() as session:
        strong = find_run(session, "strong").id
    assert best_run(world) == str(strong)
    note(f"runs/{strong}", archived=True)
    assert best_run(world) != str(strong)
    of_study = world.client.get(f"/api/v1/studies/{study}").json
    assert of_study["study"]["arms_compared"] == ["strong", "weak"]
    assert 'badge archived">archived' in world.client.get(f"/studies/{study}?tab=arms").get_data(as_text=True)
