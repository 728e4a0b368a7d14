"""How stored things are read on a page: verdicts as letters, figures with units, model output as harmless text."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

from app.samples.origins import Piece, locate_program_origins
from app.web.ui import units
from app.web.ui.units import format_count
from evaluation.datasets import PYTHON
from evaluation.verdicts import FAILURES, Failure, Status

if TYPE_CHECKING:
    from flask.sansio.app import App

    from app.datasets.models import Task


TERMS = {
    "arm": "One configuration of a study: a model, a drafter, a number of samples and the other options.",
    "budget of interest": "A budget at which the race compares the arms: the study's own, its half and its quarter.",
    "coupled": "Draws the target's token and the draft's from the same random numbers, so that they agree more often.",
    "drafter": "Proposes the next tokens cheaply; the target model checks them in one pass and keeps the right ones.",
    "goodput": "Chooses how many tokens to draft so that the most accepted tokens per second are expected.",
    "registry key": "A short name of a model that Bassline knows how to download; the page Models lists them.",
    "sibling": "A drafter without a model of its own: it proposes text that other samples of the task have written.",
}


SHOWN_CHARACTERS = 20_000  # of one text on a page; the whole text has a link of its own


@dataclass(frozen=True)
class VerdictSign:
    """A verdict as shown: one letter, a colour family (a class of components.css), a name and its meaning."""

    letter: str
    family: str
    name: str
    meaning: str


# A letter and a colour family for each status.
_LETTERS = {
    Status.PASSED: ("P", "pass"),
    Status.WRONG_ANSWER: ("W", "wrong"),
    Status.EXCEPTION: ("X", "wrong"),
    Status.SYNTAX_ERROR: ("S", "noprogram"),
    Status.COMPILE_ERROR: ("B", "noprogram"),
    Status.EMPTY: ("E", "noprogram"),
    Status.TIMEOUT: ("T", "limit"),
    Status.MEMORY: ("M", "limit"),
    Status.OUTPUT_LIMIT: ("O", "limit"),
    Status.CRASHED: ("C", "limit"),
    Status.FORGED: ("F", "refused"),
    Status.SANDBOX_ERROR: ("!", "refused"),
}
VERDICTS: dict[str, VerdictSign] = {
    status: VerdictSign(letter, family, status.replace("_", " "), status.meaning)
    for status, (letter, family) in _LETTERS.items()
}
UNFINISHED = VerdictSign("–", "open", "not finished", "still decoding when the budget ended")
UNGRADED = VerdictSign("·", "open", "not graded", "finished, but not judged yet")
_SIGN_OF_FAILURE: dict[str | None, VerdictSign] = {
    "not_finished": VerdictSign(UNFINISHED.letter, "open", "not finished", "no sample finished within the budget"),
    "name_or_import": VerdictSign("N", "wrong", "unknown name or module", "the program uses a name that is not there"),
} | {status.failure: VERDICTS[status] for status in Status}
FAILURE_SIGNS: dict[Failure, VerdictSign] = {failure: _SIGN_OF_FAILURE[failure] for failure in FAILURES}
"""The sign of a task whose chosen sample failed."""

COLOURED = ("k", "s", "c", "m", "n")  # Pygments' keywords, strings, comments, numbers, special names, in code.css

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb]"
)
_WORD_FIRST = re.compile(r"[^\W\d_]+(?=:?\s|:?$)")
_DEF = re.compile(r"(?:async\s+)?def\s")
_TRAILING = re.compile(r"[ \t]+(?=\n|\Z)")


def choose_verdict_sign(verdict: str | None, *, finished: bool = True) -> VerdictSign:
    """The sign of a sample: its verdict, unless it did not finish within its budget."""
    if not finished:
        return UNFINISHED
    return UNGRADED if verdict is None else VERDICTS[verdict]


def escape_visibly(text: str | None, *, whitespace: bool = False) -> Markup:
    """Text of unknown origin as HTML text: markup escaped, control and direction marks replaced by their names.

    With `whitespace`, line ends and trailing blanks are shown too. Longer texts are cut after SHOWN_CHARACTERS.
    """
    text = text or ""
    if not whitespace and len(text) <= SHOWN_CHARACTERS and not _CONTROL.search(text):
        return escape(text)  # nearly every text, and a page has thousands
    if whitespace:
        parts = (_show_whitespace(line) for line in text[:SHOWN_CHARACTERS].splitlines(keepends=True))
        return Markup("").join(parts) + _format_rest_note(text)
    return _format_glyphs(text[:SHOWN_CHARACTERS]) + _format_rest_note(text)


def escape_plain(text: str | None) -> str:
    """The same care where no markup may stand (titles, attributes, SVG): unsafe characters become U+FFFD."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text or "")


@functools.cache
def _get_lexer(language: str) -> Lexer:
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


def highlight_source(program: str | None, origins: Sequence[Piece] = (), language: str = PYTHON) -> Markup:
    """Source in a language as HTML with Pygments' classes; otherwise as `escape_visibly`.

    With `origins`, the pieces of the same text by where they came from, each part has the class of its piece too.
    """
    program = program or ""
    left = [(letter, len(text)) for letter, text in reversed(origins)]
    out = []
    for kind, value in _get_lexer(language).get_tokens(program[:SHOWN_CHARACTERS]):
        css = STANDARD_TYPES.get(kind, "")
        colour = css if css[:1] in COLOURED and css != "n" else ""
        for letter, part in _split_by_origin(value, left):
            names = f"{colour} from-{letter}".strip() if letter else colour
            piece = _format_glyphs(part)
            out.append(Markup('<span class="{}">{}</span>').format(names, piece) if names else piece)
    return Markup("").join(out) + _format_rest_note(program)


def format_test(task: Task) -> Markup:
    """The test of a task; of one with cases a line for each call and what must come of it."""
    if not task.cases:
        return highlight_source(task.test, (), task.language)
    lines = []
    for case in task.cases:
        args = ", ".join(json.dumps(arg, ensure_ascii=False) for arg in case["args"])
        outcome = f"raises {case['raises']}" if "raises" in case else json.dumps(case["result"], ensure_ascii=False)
        lines.append(f"{task.entry_point}({args}) → {outcome}")
    return escape_visibly("\n".join(lines))


def strip_prompt(program: str, prompt: str, language: str = PYTHON, text: Sequence[Piece] = ()) -> Markup:
    """A program without the prompt, which stands on the page already, with the origins of the `text` it came from.

    What was put before the prompt, such as an import, stays, and blank lines do not matter.
    """
    given = [line.rstrip() for line in prompt.splitlines() if line.strip()]
    ends = [i for i in reversed(range(len(given))) if language != PYTHON or _DEF.match(given[i])]
    function = ends[0] if ends else 0
    lines = program.splitlines()
    for part in (given, given[function:]):
        if found := _find_lines(lines, part):
            start, end = found
            note = Markup('<span class="given">… {} of the prompt</span>\n').format(format_count(len(part), "line"))
            before = "\n".join([*lines[:start], ""])
            rest = "\n".join(lines[end:]).lstrip("\n")
            shown = [highlight_source(part, locate_program_origins(part, text), language) for part in (before, rest)]
            return note.join(shown)
    return highlight_source(program, locate_program_origins(program, text), language)


def shorten_model(ref: str) -> str:
    """A model reference without its source and folders: `hf:org/name` becomes `name`."""
    return ref.rstrip("/").rsplit("/", 1)[-1] or ref


def capitalize_sentence(text: str) -> str:
    """The text with a capital first letter, if it begins with a word; a name such as bad.jsonl stays as it is."""
    return text[:1].upper() + text[1:] if _WORD_FIRST.match(text) else text


def label_field(text: str, field: str, label: str) -> str:
    """A sentence of the service with the field's label instead of its internal name, and a capital letter."""
    return capitalize_sentence(re.sub(rf"^{re.escape(field)}(?=[ :])", label, text))


def pair_options(values: Iterable[str]) -> list[tuple[str, str]]:
    """Options of a select whose value is also its text."""
    return [(value, value) for value in values]


def register(app: App) -> None:
    """Make all of this available to templates."""
    own = {
        "visible": escape_visibly,
        "plain": escape_plain,
        "highlighted": highlight_source,
        "judged_by": format_test,
        "program_after": strip_prompt,
        "short_model": shorten_model,
        "sentence": capitalize_sentence,
        "same_text_options": pair_options,
    }
    app.jinja_env.filters.update(units.FILTERS | own)
    app.jinja_env.globals.update(
        VERDICTS=VERDICTS,
        UNFINISHED=UNFINISHED,
        UNGRADED=UNGRADED,
        TERMS=TERMS,
    )


def _find_lines(lines: Sequence[str], wanted: Sequence[str]) -> tuple[int, int] | None:
    """Start and end of where `wanted` stands in `lines`, blank lines apart; None where it does not."""
    filled = [(i, line.rstrip()) for i, line in enumerate(lines) if line.strip()]
    for at in range(len(filled) - len(wanted) + 1 if wanted else 0):
        if all(filled[at + k][1] == line for k, line in enumerate(wanted)):
            return filled[at][0], filled[at + len(wanted) - 1][0] + 1
    return None


def _split_by_origin(text: str, left: list[tuple[str, int]]) -> Iterator[tuple[str, str]]:
    """`text` by the pieces it covers, taken off the end of `left`; without a letter where there are none."""
    while text:
        letter, length = left.pop() if left else ("", len(text))
        if length > len(text):
            left.append((letter, length - len(text)))
        yield letter, text[:length]
        text = text[length:]


def _format_rest_note(text: str) -> Markup:
    rest = len(text) - SHOWN_CHARACTERS
    return (
        Markup('<span class="glyph">… {}</span>').format(format_count(rest, "more character"))
        if rest > 0
        else Markup("")
    )


def _format_glyphs(text: str) -> Markup:
    out, last = [], 0
    for match in _CONTROL.finditer(text):
        code = ord(match.group())
        name = chr(0x2400 + code) if code < 0x20 else f"U+{code:04X}"
        out += [escape(text[last : match.start()]), Markup('<span class="glyph">{}</span>').format(name)]
        last = match.end()
    return Markup("").join([*out, escape(text[last:])])


def _show_whitespace(line: str) -> Markup:
    body = line.removesuffix("\n")
    kept = _TRAILING.sub("", body)
    blanks = body[len(kept) :].replace(" ", "·").replace("\t", "→")
    mark = Markup('<span class="ws" aria-hidden="true">{}</span>')
    end = mark.format("↵") + "\n" if line.endswith("\n") else Markup("")
    return _format_glyphs(kept) + (mark.format(blanks) if blanks else Markup("")) + end
