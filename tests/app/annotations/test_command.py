"""The command line of annotations, for runs and for studies: what it changes, prints and refuses."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from app.cli.main import cli


@pytest.fixture
def bassline(world, monkeypatch):
    """Runs the command line on the database of `world`; returns click's result."""
    monkeypatch.setenv("BASSLINE_DATABASE_URL", world.context.settings.effective_database_url)
    return lambda *words, **more: CliRunner().invoke(cli, [str(word) for word in words], **more)


@pytest.fixture(params=["runs", "study"])
def group(request, world):
    """The word of the command group; a run or a study `one` is there, and another one."""
    for name in ("one", "other"):
        if request.param == "runs":
            world.add_run(name, limit=1, n=1)
        else:
            world.add_study({"name": f"arm of {name}", "limit": 1, "n": 1}, name=name)
    return request.param


@pytest.fixture
def listed(bassline, group):
    """The documents that the list shows."""

    def read(*words: str) -> list[dict]:
        documents = json.loads(bassline(group, "list", *words, "--json", "-").stdout)
        return [document["run" if group == "runs" else "study"] for document in documents]

    return read


def test_a_note_is_written_from_the_command_or_standard_input_and_removed(bassline, group, listed):
    assert bassline(group, "note", "one", "look here").output == "noted on one\n"
    assert [found["note"] for found in listed()] == ["", "look here"]
    bassline(group, "note", "one", "-", input="two\nlines\n")
    assert listed()[1]["note"] == "two\nlines"
    assert "two" in bassline(group, "show", "one").output
    assert bassline(group, "note", "one", "").output == "removed the note of one\n"
    assert listed()[1]["note"] == ""


def test_archive_and_back(bassline, group, listed):
    assert bassline(group, "archive", "one").output == "archived one\n"
    assert [found["name"] for found in listed()] == ["other"]
    assert [found["name"] for found in listed("--archived")] == ["other", "one"]
    assert "one (archived)" in bassline(group, "list", "--archived").output
    assert bassline(group, "unarchive", "one").output == "brought back one\n"
    assert [found["archived"] for found in listed()] == [False] * 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("note", "nowhere", "x"), "there is no"),
        (("note", "one", "x" * 10_001), "note is"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(bassline, group, words, sentence):
    result = bassline(group, *words)
    assert result.exit_code == 2
    assert sentence in result.output
    assert "Traceback" not in result.output


def test_a_note_on_standard_input_that_is_too_long_is_refused(bassline, group):
    result = bassline(group, "note", "one", "-", input="x" * 10_100)
    assert result.exit_code == 2
    assert "shorten it to 10000 characters" in result.output


def test_the_leaderboard_filters(bassline, world):
    for name in ("one", "other"):
        world.add_run(name, limit=1, n=1)
    bassline("runs", "archive", "other")
    named = [row["name"] for row in json.loads(bassline("leaderboard", "--json", "-").stdout)]
    assert named == ["one"]
    assert len(json.loads(bassline("leaderboard", "--archived", "--json", "-").stdout)) == 2
    assert "No run matches." in bassline("leaderboard", "--target", "y").output
