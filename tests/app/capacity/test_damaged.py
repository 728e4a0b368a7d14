"""A load test with one wrong value is refused in a sentence, or its pages and lists still answer."""

from __future__ import annotations

import random

from tests.app.damage import DAMAGE, damaged, kinds


def test_one_wrong_value_is_refused_or_shown_and_never_a_fault(world, body):
    dice = random.Random(1)
    other = world.client.post("/api/v1/capacity", json=body).json["id"]
    for path in kinds(body):
        value = dice.choice(DAMAGE)
        sent = world.client.post("/api/v1/capacity", data=damaged(body, path, value), content_type="application/json")
        assert sent.status_code in (201, 422), (path, value)
        if sent.status_code == 201:
            found = sent.json["id"]
            for page in ("/capacity", f"/capacity/{found}", f"/capacity/{other}?with={found}", "/api/v1/capacity"):
                assert world.client.get(page).status_code == 200, (path, value, page)
