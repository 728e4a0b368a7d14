"""Answers made to stop a grader: extraction takes little time over them, in a process that may be lost."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from evaluation.datasets import Task
from evaluation.extraction import NOT_READ, TREE_VERSION, VERSION, build_unread_extraction, extract
from evaluation.extractor import CPU_S, Extractor
from evaluation.source import ParseLimitError, limit_characters, parse

ANSWERS = sorted((Path(__file__).parent / "red" / "answers").glob("x*.txt"))
CLOSE = Task("X/0", 'def has_close(a, b):\n    """Whether."""\n', "has_close", "def check(c):\n    c(1, 2)\n", "")
BUILT = {
    "newlines in brackets": "return (" + "\n" * 24_000 + ")) x",
    "newlines in brackets, as a body": "    return (" + "\n" * 24_000 + ")) has_close",
    "fences, 45 KB": "```\nx = [1,\n" * 4_500,
    "fences with functions, 50 KB": "```python\ndef has_close(a, b):\n    return (a\n" * 1_100,
    "blank lines": "def has_close(a,\n" + "\n" * 49_000,
    "one long line": "has_close = " + "a " * 24_000,
    "spaces": "x" + " " * 49_000 + "\ny",
    "thoughts": "<think>\n" * 6_000,
    "ended thoughts": "</think><think>\n" * 3_000,
    "a session": ">>> def has_close(a):\n... \n" * 1_900,
}
TEXTS = {**{path.stem: path.read_text("utf-8") for path in ANSWERS}, **BUILT}


SPINNING = """
import sys
print("ready", flush=True)
sys.stdin.readline()
while True:
    pass
"""


@pytest.fixture(scope="module")
def extractor():
    kept = Extractor()
    yield kept
    kept.close()


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_answer_is_read_without_losing_the_process(name, extractor):
    """The process would be lost after CPU_S, so each of these took less."""
    assert len(ANSWERS) > 30
    for mode in ("completion", "chat"):
        found = extractor.extract(CLOSE, TEXTS[name], mode)
        assert found.version == VERSION


def test_the_bound_of_what_is_read_holds_for_all_readings_together():
    text = "x = 1\n" * 100
    with limit_characters(1_000):
        assert parse(text) is not None
        assert parse(text) is parse(text), "what was read already costs nothing"
        with pytest.raises(ParseLimitError):
            parse(text + "\n")
    assert parse("x = 1\n") is not None, "outside of it nothing is counted"


def test_an_answer_that_takes_too_long_is_taken_unread_and_the_next_one_is_read():
    short = Extractor(cpu_s=0.02)
    text = "    return " + "1+" * 20_000 + "1\n"
    try:
        for _ in range(2):
            found = short.extract(CLOSE, text, "completion")
            assert (found.program, found.location, found.version) == (
                CLOSE.prompt + text,
                "completion",
                VERSION + NOT_READ,
            )
        assert short.extract(CLOSE, "    return a\n", "completion").version == VERSION
    finally:
        short.close()


def test_an_answer_in_another_language_that_was_not_read_names_the_extraction_of_that_language():
    task = dataclasses.replace(CLOSE, language="javascript")
    assert build_unread_extraction(task, "return 1", "completion").version == TREE_VERSION + NOT_READ


def test_a_process_that_ends_or_hangs_costs_its_answer_alone():
    patient = Extractor()
    try:
        patient.extract(CLOSE, "    return a\n", "completion")
        process, patient._wall_s = patient._process, 0.2
        os.kill(process.pid, signal.SIGSTOP)
        assert patient.extract(CLOSE, "    return a\n", "chat").version == VERSION + NOT_READ
        assert process.returncode == -signal.SIGKILL
    finally:
        patient.close()
    steady = Extractor()
    try:
        steady.extract(CLOSE, "    return a\n", "completion")
        steady._process.kill()
        steady._process.wait()
        assert steady.extract(CLOSE, "    return a\n", "completion").version == VERSION
    finally:
        steady.close()


def test_other_threads_run_while_an_answer_is_read(monkeypatch):
    """Parsed here, this text would hold the interpreter's lock to its end; there it uses all of its CPU time."""
    busy = Extractor(cpu_s=0.3)
    monkeypatch.setattr("evaluation.extractor._SERVE", SPINNING)
    done = threading.Event()
    reader = threading.Thread(target=lambda: (busy.extract(CLOSE, "x", "chat"), done.set()))
    before = time.process_time()
    reader.start()
    beats = 0
    while not done.wait(0.005):
        beats += 1
    reader.join()
    busy.close()
    assert beats > 5
    assert time.process_time() - before < CPU_S, "the time was not spent in this process"


def test_the_process_knows_no_secret_and_ends_with_its_owner(monkeypatch):
    monkeypatch.setenv("BASSLINE_SECRET_KEY", "hidden")
    kept = Extractor()
    kept.extract(CLOSE, "    return a\n", "completion")
    process = kept._process
    assert b"hidden" not in Path(f"/proc/{process.pid}/environ").read_bytes()
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(30) == 0
    kept.close()


def test_any_text_crosses_unchanged(extractor):
    for raw in ("\ud800\x00\u2028\r\n", "", "    return 'λ\U0001f600'\n"):
        assert extractor.extract(CLOSE, raw, "completion") == extract(CLOSE, raw, "completion")


def test_a_process_that_does_not_start_is_a_fault_and_no_reading(monkeypatch):
    monkeypatch.setattr("evaluation.extractor._SERVE", "raise SystemExit(3)")
    with pytest.raises(OSError, match="does not start"):
        Extractor().extract(CLOSE, "    return a\n", "completion")
