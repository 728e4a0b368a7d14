"""The pages of load tests: what they are, one with its curves, two laid over each other, and texts as text."""

from __future__ import annotations

import html
import re
import uuid

import pytest

from app.capacity import pages

HOSTILE = "</h1><script>alert(1)</script> {{ 7 * 7 }} \u202e"


def text_of(answer) -> str:
    assert answer.status_code == 200, answer.get_data(as_text=True)[:400]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.get_data(as_text=True))))


def test_without_load_tests_the_page_says_what_one_is_and_the_command_that_makes_one(world):
    page = text_of(world.client.get("/capacity"))
    assert "A load test measures a service that answers many requests at once" in page
    assert "bassline bench load --target" in page


def test_the_list_names_each_capacity_and_has_pages(world, add, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_SIZE", 2)
    for name, carries in (("oldest", 0.1), ("middle", 1.0), ("newest", 0.01)):
        add(name=name, carries=carries)
    answer = world.client.get("/capacity")
    page = text_of(answer)
    assert "newest" in page
    assert "1 per s" in page
    assert "oldest" not in page
    following = re.search(r'href="(/capacity\?before=[^"]+)"', answer.get_data(as_text=True))
    assert following is not None
    assert "oldest" in text_of(world.client.get(html.unescape(following[1])))


def test_a_load_test_shows_its_capacity_curves_points_and_settings(world, add):
    page = text_of(world.client.get(f"/capacity/{add()}"))
    assert (
        "It carries 0.5 requests per second by the best estimate: there Pass@First is within 5 points of the 60 %"
        in page
    )
    for heading in ("Quality against load", "Right answers in time", "First finished sample", "Whole answer"):
        assert heading in page
    assert "retry after 3 s" in page
    assert "torch 2.11.0" in page
    assert "finished later than shown" not in page


def test_a_service_whose_clock_misses_part_of_the_wait_is_pointed_out(world, add):
    assert "own times miss up to 2.5 s of the wait" in text_of(world.client.get(f"/capacity/{add(unclocked_s=2.5)}"))


def test_two_selected_load_tests_are_overlaid_under_short_names(world, add):
    a = add(name="smollm2-135m, n = 4, together", carries=1.0)
    b = add(name="smollm2-135m, n = 4, alone", arm="alone", carries=0.1)
    ticked = world.client.get(f"/capacity?test={a}&test={b}&compare=1")
    assert (ticked.status_code, ticked.headers["Location"]) == (302, f"/capacity/{a}?with={b}")
    answer = world.client.get(ticked.headers["Location"])
    page = text_of(answer)
    assert "together and alone" in page
    assert "together : It carries 1 request per second by the best estimate" in page
    assert "alone : It carries 0.1 requests per second by the best estimate" in page
    assert "alone: Pass@First" in page
    assert "together carries more (best estimates: together and alone carry 1 and 0.1 of the tried rates" in page
    assert "together against alone at 0.1 requests per second: Pass@First +0.0 points (95 %: −" in page
    assert "20 prompts, 40 requests): undecided. About " in page
    assert "<strong>alone</strong>" in answer.get_data(as_text=True)
    assert "They differ in more than the service" not in page


def test_without_the_answers_by_prompt_nothing_is_claimed(world, add, body):
    for point in (body["idle"], *body["points"]):
        point["by_prompt"] = None
    old = [world.client.post("/api/v1/capacity", json=body | {"name": name}).json["id"] for name in ("x", "y")]
    page = text_of(world.client.get(f"/capacity/{old[0]}?with={old[1]}"))
    assert page.count("there is no interval and this decides nothing: measure it again") == 3
    assert "no interval" in text_of(world.client.get("/capacity"))


def test_load_tests_of_other_settings_are_compared_with_a_caution(world, add):
    page = text_of(world.client.get(f"/capacity/{add(n=8, duration_s=10.0)}?with={add()}"))
    assert "They differ in more than the service: n, duration." in page


def test_a_load_test_with_itself_is_shown_once(world, add):
    a = add()
    assert text_of(world.client.get(f"/capacity/{a}?with={a}")) == text_of(world.client.get(f"/capacity/{a}"))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_ticking_other_than_two_is_refused_and_keeps_the_ticks(world, add, count):
    ids = [add(name=f"test {i}") for i in range(3)][:count]
    answer = world.client.get("/capacity?compare=1" + "".join(f"&test={one}" for one in ids))
    assert answer.status_code == 422
    body = answer.get_data(as_text=True)
    assert f"{count} load tests are selected: select two to compare them" in body.lower()
    assert body.count(" checked>") == count


def test_addresses_that_name_no_load_test_are_refused(world, add):
    assert world.client.get(f"/capacity/{uuid.uuid4()}").status_code == 404
    assert world.client.get(f"/capacity/{add()}?with={uuid.uuid4()}").status_code == 404
    assert world.client.get(f"/capacity/{add()}?with=x").status_code == 422
    assert world.client.get("/capacity?before=x").status_code == 422
    assert world.client.get("/capacity?test=x&test=y").status_code == 422


def test_every_text_is_shown_as_text(world, add):
    words = ("arm", "target", "drafter", "dataset", "device", "dataset_sha256")
    a = add(name=HOSTILE, machine={HOSTILE: HOSTILE}, **dict.fromkeys(words, HOSTILE))
    for address in ("/capacity", f"/capacity/{a}", f"/capacity/{a}?with={add(name=f'b {HOSTILE}')}"):
        body = world.client.get(address).get_data(as_text=True)
        assert "<script>alert" not in body
        assert "\u202e" not in body
        assert "{{ 7 * 7 }}" in html.unescape(body)


@pytest.mark.parametrize("rates", [(0.5,), (1e-6, 1e4), tuple(float(i) for i in range(1, 101))])
def test_any_rates_have_a_chart(world, add, rates):
    page = text_of(world.client.get(f"/capacity/{add(rates=rates, skill=0.0)}"))
    assert "The idle service has no right answer in time" in page
    assert "nan" not in page
