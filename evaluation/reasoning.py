"""Removes the part of an answer that the model marked as reasoning.

A tag counts only at the level of the answer. One inside a string, a comment, a docstring, inline code, a fence or a
regular expression belongs to a program or is quoted by the reasoning. The language is not known here, and reasoning
is prose, so this reads what the languages have in common: a quote opens a string only where its end is on the same
line, or where the text before it is code. Every function runs in time linear in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TAGS = ("think", "thinking", "reasoning")
_MAX_BLOCKS = 20
"""Blocks of reasoning that are removed from one text; models write one or a few."""
_MAX_ENDS_MISSED = 64
"""Missing string ends after which no more are searched for."""
_STRING_START = r"(?:(?<![\w\\&<)\]])|(?<=\W[fFrRbBuU])|(?<=\W[fFrRbB]{2}))"
"""No apostrophe, as in `don't`, and no lifetime of Rust, as in `&'a str`."""
_FENCE = re.compile(r"(?:^[ ]{0,3}|(?<=[kg]>))(?P<fence>```+|~~~+)[^`\n]*$", re.MULTILINE)
_TOKEN = re.compile(
    rf"""
    (?P<tag></?(?:{"|".join(TAGS)})>)
  | {_FENCE.pattern}
  | (?P<open>\"\"\"|'''|/\*|(?<!\w)b?r\#{{1,8}}"|R"\w{{0,16}}\()
  | (?<!\\)"(?:\\[\s\S]|[^"\\\n])*+"
  | {_STRING_START}'(?:\\[\s\S]|[^'\\\n])*+'
  | (?<![\\`])`(?!`)(?:\\.|[^`\\\n])*+`
  | (?<!\\)(?P<multi>"|(?<!`)`(?!`))
  | (?P<comment>(?<![:/])//+|(?<![CF.\#])\#+)
  | (?<=[\s(,=:[!&|?{{}};])/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n]){{1,99}}+\]|<(?!/)|[^/\\\n\[<])++/
    """,
    re.MULTILINE | re.VERBOSE,
)
_CODE_BEFORE_STRING = re.compile(r"(?:[=(,:+?{\[&|!]|=>|\b(?:return|case))[ \t]*[\w.]*\Z")
_NEAR = 80
"""Characters before and after a token that say what it is."""


def strip_reasoning(text: str) -> str:
    """The text without its reasoning, closed or not; unchanged where it has none.

    Some chat templates open the reasoning in the prompt: then the text has the closing tag alone, and all before it is
    reasoning.
    """
    for tag in TAGS:
        if f"<{tag}>" in text or f"</{tag}>" in text:
            text = _strip_blocks(text, tag)
    return text


def _strip_blocks(text: str, tag: str) -> str:
    kept, at = "", 0
    scanner = _Scanner(text)
    for block in range(_MAX_BLOCKS):
        found = scanner.find(at, (f"<{tag}>",) if block else (f"<{tag}>", f"</{tag}>"))
        if found is None:
            break
        if found[0] == f"<{tag}>":
            kept += text[at : found.start()]
            # Reasoning may quote a program that it does not end, whose open string seems to reach into the answer.
            end = scanner.find(found.end(), (f"</{tag}>",)) or scanner.find(found.end(), (f"</{tag}>",), one_line=True)
            if end is None:
                return kept
            found = end
        at = found.end()
    return kept + text[at:]


_WITH_ESCAPES = ('"""', "'''", '"', "`")


@dataclass(slots=True)
class _Scanner:
    """Finds tags in a text."""

    text: str
    missed: set[str] = field(default_factory=set)
    """Ends of long strings, and fences without an end, that do not occur in the rest of the text."""

    def find(self, at: int, tags: tuple[str, ...], *, one_line: bool = False) -> re.Match[str] | None:
        """The first of these tags from `at` on at the level of the answer.

        `one_line` ignores strings over several lines, comments and unpaired fences.
        """
        paired = one_line and len(_FENCE.findall(self.text, at)) % 2 == 0
        while (token := _TOKEN.search(self.text, at)) is not None:
            at = token.end()
            if token["tag"] is not None:
                if token["tag"] in tags and self._is_reasoning_tag(token):
                    return token
            elif not one_line or (paired and token["fence"] is not None):
                at = self._skip(token)
        return None

    def _is_reasoning_tag(self, token: re.Match[str]) -> bool:
        """Whether a tag opens or ends reasoning: no word of a sentence, and not alone in quotes."""
        start, end = token.span()
        before = self.text[max(0, start - _NEAR) : start].rpartition("\n")[2]
        after = self.text[end : end + _NEAR].partition("\n")[0]
        if not before.strip():
            return True
        if token["tag"][1] != "/":
            return False
        if before[-1] in "\"'`" and before[-1] == after[:1]:
            return False
        return not before[-1].isspace() or not after.strip()

    def _skip(self, token: re.Match[str]) -> int:
        """Where a comment, a fence or a string over several lines ends; right after the token where it has no end."""
        if token["comment"] is not None:
            end = self.text.find("\n", token.end())
            return end if end >= 0 else len(self.text)
        if (fence := token["fence"]) is not None:
            return self._find_fence(fence, token.end())
        if (opening := token["open"]) is None and token["multi"] is not None:
            before = self.text[max(0, token.start() - _NEAR) : token.start()].rpartition("\n")[2]
            opening = token["multi"] if _CODE_BEFORE_STRING.search(before) else None
        return token.end() if opening is None else self._find_end(opening, token.end())

    def _find_fence(self, opening: str, at: int) -> int:
        if opening in self.missed:
            return at
        end = re.compile(rf"^ {{0,3}}{opening[0]}{{{len(opening)},}}[ \t]*$", re.MULTILINE).search(self.text, at)
        if end is None:
            self.missed.add(opening)
            return at
        return end.end()

    def _find_end(self, opening: str, at: int) -> int:
        closing = {"/*": "*/"}.get(opening, opening)
        if opening.startswith("R"):
            closing = f'){opening[2:-1]}"'
        elif "#" in opening:
            closing = '"' + "#" * opening.count("#")
        if closing in self.missed or len(self.missed) > _MAX_ENDS_MISSED:
            return at
        start = at
        while (end := self.text.find(closing, start)) >= 0:
            before = self.text[max(at, end - _NEAR) : end]
            if closing not in _WITH_ESCAPES or (len(before) - len(before.rstrip("\\"))) % 2 == 0:
                return end + len(closing)
            start = end + 1
        self.missed.add(closing)
        return at
