"""Model output is hostile: it is shown as text, breaks no layout, and nothing inline may run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

import app
from app.core.states import RunKind
from app.web.ui import display

TEMPLATES = Path(app.__file__).parent / "web" / "templates"
STATIC = Path(app.__file__).parent / "web" / "static"
HOSTILE = (
    '</pre><script>alert(1)</script><img src=x onerror="alert(2)"><style>*{display:none}</style>\n'
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \u202egnirts\u2066 \u200bzero\ufeff {{ 7 * 7 }} \x00 \x85 \ud800"
)
PAGES = ("?tab=curve", "?tab=tasks", "?tab=failures", "?tab=config", "/tasks/HumanEval/0")


def storable(text: str) -> str:
    return text.replace("\ud800", "").replace("\x00", "")


@pytest.fixture
def hostile_run(world):
    text = storable(HOSTILE)
    return world, world.add_run(text[:190], n=2, limit=3, raw=text, prompt=text, device=text[:190])


def test_hostile_text_stays_text_on_every_page(hostile_run):
    world, run = hostile_run
    for part in PAGES:
        page = world.client.get(f"/runs/{run}{part}").get_data(as_text=True)
        assert "<script>alert" not in page
        assert "<img" not in page
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ufeff]", page)


def test_hostile_text_stays_text_in_a_completion_a_comparison_and_an_overlay(world):
    text = storable(HOSTILE)
    completion = world.add_run("completion", n=2, limit=1, raw=text, kind=RunKind.COMPLETION)
    a, b = (world.add_run(text[:180] + end, n=2, limit=3, raw=text, device=text[:150] + end) for end in "ab")
    views = ("", "/matrix", "/task?id=HumanEval/0")
    overlay = [f"/overlay/{a},{b}{view}" for view in views]
    for path in (f"/complete/{completion}", "/overlay", *overlay):
        page = world.client.get(path).get_data(as_text=True)
        assert "<script>alert" not in page
        assert "<img" not in page
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ufeff]", page)


def test_hostile_names_stay_text_on_the_leaderboard(hostile_run):
    world, _ = hostile_run
    for path in ("/leaderboard", "/runs", "/overlay"):
        page = world.client.get(path).get_data(as_text=True)
        assert "<script>alert" not in page
        assert "\u202e" not in page


def test_a_megabyte_on_one_line_is_cut_before_it_is_highlighted_and_can_be_had_whole(world, monkeypatch):
    raw = "x=" + "(" * 1_000_000
    run = world.add_run("huge", n=1, limit=1, raw=raw)
    lexer, highlighted = display._get_lexer("python"), []
    tokens_of = lexer.get_tokens
    monkeypatch.setattr(lexer, "get_tokens", lambda text: highlighted.append(len(text)) or tokens_of(text))
    page = world.client.get(f"/runs/{run}/tasks/HumanEval/0").get_data(as_text=True)
    assert max(highlighted) == display.SHOWN_CHARACTERS
    assert len(page) < 400_000
    assert "more characters" in page
    (sample,) = world.client.get(f"/api/v1/runs/{run}/samples").json["samples"]
    assert sample["raw"] == raw


def test_the_policy_allows_nothing_inline(world):
    for path in ("/", "/leaderboard", "/runs", "/runs/new", "/complete", "/about", "/nowhere"):
        policy = world.client.get(path).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize("template", sorted(TEMPLATES.rglob("*.html")), ids=lambda p: p.name)
def test_templates_hold_no_inline_script_or_style(template):
    source = template.read_text(encoding="utf-8")
    assert not re.search(r"\sstyle\s*=", source)
    assert not re.search(r"<style|\son\w+\s*=(?!=)|javascript:", source)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", source))
    assert "| safe" not in source
    assert "http://" not in source
    assert "https://" not in source


@pytest.mark.parametrize("script", sorted(STATIC.glob("js/*.js")), ids=lambda p: p.name)
def test_scripts_make_no_markup_of_strings(script):
    source = script.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", source)


@given(st.text(alphabet=st.characters(), max_size=300))
def test_whatever_is_shown_holds_no_markup_and_no_invisible_control(text):
    for shown in (
        display.escape_visibly(text),
        display.escape_visibly(text, whitespace=True),
        display.highlight_source(text),
    ):
        assert isinstance(shown, Markup)
        bare = re.sub(r'<span class="[a-z0-9]*"(?: aria-hidden="true")?>|</span>', "", shown)
        assert "<" not in bare
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", bare)


def test_line_ends_and_trailing_blanks_of_a_prompt_are_marked():
    shown = display.escape_visibly("a \n\tb\n", whitespace=True)
    assert shown.count("↵") == 2
    assert "·" in shown


def test_vendored_files_are_those_of_the_lock():
    lock = json.loads((STATIC / "vendor" / "vendor.json").read_text(encoding="utf-8"))
    found = {p.relative_to(STATIC / "vendor") for p in (STATIC / "vendor").rglob("*") if p.is_file()}
    locked = {Path(folder) / name for folder, entry in lock.items() for name in entry["files"]}
    assert found - {Path(folder) / "LICENSE" for folder in lock} - {Path("vendor.json")} == locked
    for folder, entry in lock.items():
        for name, digest in entry["files"].items():
            content = (STATIC / "vendor" / folder / name).read_bytes()
            assert digest == "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
