"""Phrases that no native engineer writes, and names without an object, do not come back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("app", "benchmarks", "decoding", "deploy", "docs", "evaluation", "kernels", "tests")
ENDINGS = (".py", ".md", ".html", ".js")
ELSEWHERE = (
    "app/web/static/vendor",
    "tests/evaluation/hostile",
    "tests/evaluation/red",
    "tests/structure/test_words.py",
)
"""Vendored files, programs that attack the sandbox, and this table."""

WRITE = {
    r"(?<!here )\bis no (?!longer|more|less|better|worse|later|earlier|larger|smaller|slower|faster)": ("is not a ..."),
    r"\b(that|those) of\b": "repeat the noun",
    r"\bwhoever\b": "the noun: the caller, the user",
    r"\bshall\b": "must, will",
    r"\banew\b": "again",
    r"\blikeliest\b": "most likely, top-k",
    r"\bbehind (its pending token|the rest)\b": "after",
    r"\b(lend|lends|lent)\b": "check out, acquire",
    r"\bmade-up\b|verify_blank": "dummy, verify_dummy",
    r"\blaw of the text\b": "distribution",
    r"\bin company\b": "batched with others",
    r"\btakes? the request up\b": "accepts the request",
    r"\bunfolds? to\b": "decompresses to",
    r"\bnumber formats?\b": "dtype",
    r"\bone in so many\b": "one in every N",
    r"\bseparated by (blanks?|commas?)\b": "space-separated, comma-separated",
    r"\bwhich letters, digits\b": "letters, digits and underscores",
    r"\bwhich (\w+ ){1,3}has not(?= ?[.,;:)\"'])": "which X does not have",
    r"\bwants another key\b": "rejected the API key",
    r"\bdatabase cannot be asked\b": "the database is unavailable",
    r"\bused longest ago\b": "least recently used",
    r"\bthe begin of\b": "the start of",
    r"\bsay ([A-Z_]+=|where it)": "set NAME=..., give --option",
    r"\bhonest (figure|number|measurement)s?\b": "measured results",
    r"\bper right answer\b": "per solved task",
    r"\bNothing is finished correctly\b": "No correct answer",
    r"\b(gets?|sees|has|have) who\b": "put the clause beside its noun",
    r"\btasks cannot tell\b": "not significantly different",
    r"\bequally good: ": "not distinguishable",
    r"\bhardly tell\b": "unlikely to separate",
    r"\bOne second more\b": "One more second",
    r"\blay their curves\b|\bTick two\b|\bnames no run\b": "Select two or more runs to overlay their curves",
    r"\bquotation does not end\b": "missing closing quotation mark",
    r"\byardsticks?\b": "baseline",
    r"\bBehind each arm\b": "The percentage is ...",
    r"\bArchived, too\b": "Include archived",
    r"\bResume works the\b": "Resume runs the remaining",
    r"\d s waiting, ": "waited 0.5 s, decoded 4.9 s",
    r"\b95 % between\b": "95 % interval",
    r"\bothers took more than\b": "other programs used up to",
    r"\bfixed verify\b": "fixed benchmark step",
    r"\btable of the paper\b": "table from the BASS paper",
    r"\bper task on auto\b": "device chosen automatically",
    r"\b(meets|affects) all of them alike\b": "affects all of them equally",
    r"\bat[ _]work\b": "running, in progress",
    r"noqa: N818": "an exception ends in Error",
    r'"""See ': "say what it does",
    r"\b(tells_of|goes_to|belongs_to_others|own_output|require_room)\b": "verb + object",
}
"""Pattern: what to write instead. Patterns ignore case."""


def files() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in ENDINGS and not path.relative_to(ROOT).as_posix().startswith(ELSEWHERE):
                yield path


def text_of(path: Path) -> str:
    """The text of a file; of the change log only the unreleased part."""
    text = path.read_text("utf-8")
    return text.partition("\n## [0")[0] if path.name == "CHANGELOG.md" else text


def test_no_phrase_comes_back() -> None:
    patterns = {re.compile(phrase, re.IGNORECASE): instead for phrase, instead in WRITE.items()}
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()} (write: {instead})"
        for path in files()
        for text in [text_of(path)]
        for pattern, instead in patterns.items()
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)
