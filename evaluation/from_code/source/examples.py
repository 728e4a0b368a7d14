"""The examples in a function's docstring that call it with plain data."""

from __future__ import annotations

import ast
import doctest
from dataclasses import dataclass

from evaluation.from_code.recording import values
from evaluation.from_code.source.find import ProjectFunction

_CHECKER = doctest.OutputChecker()
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class DocstringExample:
    """A call (`recording.values`) and what the docstring says that it prints."""

    call: str
    prints: str

    def agrees(self, returned: str | None, raised: tuple[str, ...]) -> bool:
        """Whether the docstring says what the function did."""
        if raised:
            lines = self.prints.rstrip().splitlines()
            return bool(lines) and lines[0].startswith("Traceback") and raised[0] in lines[-1]
        value = values.read_plain(returned or "null")
        return _CHECKER.check_output(self.prints, "" if value is None else f"{value!r}\n", _OPTIONS)


def list_docstring_examples(function: ProjectFunction) -> list[DocstringExample]:
    """Each example that is one call of the function with literals as arguments; a function outside of classes only,
    since the receiver of a method is not a literal."""
    text = ast.get_docstring(function.node)
    if not text or function.owners or ">>>" not in text:
        return []
    found: dict[str, DocstringExample] = {}
    try:
        every = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return []
    for each in every:
        call = _parse_call(each.source, function.node.name)
        if call is not None:
            found.setdefault(call, DocstringExample(call, each.want))
    return list(found.values())


def _parse_call(source: str, name: str) -> str | None:
    try:
        tree = ast.parse(source.strip(), mode="eval").body
        if not isinstance(tree, ast.Call) or ast.unparse(tree.func).rpartition(".")[2] != name:
            return None
        args = tuple(ast.literal_eval(each) for each in tree.args)
        kwargs = {each.arg: ast.literal_eval(each.value) for each in tree.keywords if each.arg is not None}
        text = values.serialize((args, kwargs))
    except (SyntaxError, ValueError, RecursionError, TypeError, MemoryError, values.UnwritableError):
        return None
    starred = any(each.arg is None for each in tree.keywords)
    return text if not starred and values.is_plain(text) else None
