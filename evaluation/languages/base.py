"""What every language provides: a toolchain, types and literals, drivers, prompts and oracles. See docs/languages.md.

A language is a folder with the modules `toolchain` and `language`, and one line in `registry`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from evaluation.languages.cases import JsonCase, Parameter, Signature
from evaluation.languages.types import Type
from evaluation.languages.values import Json, encode_float, from_json
from evaluation.sandbox.programs import Tools

_MIN_INT = -(2**63)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class UnsupportedError(ValueError):
    """A type or a value that a language cannot express; the message is the reason in a few words."""


class ToolchainError(Exception):
    """A toolchain that is missing or unusable here; the message says why."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A language's programs on this machine. `label` is what provenance shows, free of paths: `node 24.19.0`."""

    label: str
    tools: Tools


@dataclass(frozen=True, slots=True)
class Syntax:
    """What extraction asks tree-sitter about a language.

    `definitions` are the node types that define a function, a class or a variable, with a field `name` or `declarator`;
    `kept` the other top-level node types that stay in a program unless they use its function ("outer/inner" also asks
    for the type of the first child). `wrappers` are nodes around a definition, such as an export: their content
    takes their place. A top-level node of another type is a demonstration and is left out.
    """

    grammar: str  # the module of the grammar
    factory: str  # its function that returns the language
    definitions: tuple[str, ...]
    kept: tuple[str, ...]
    wrappers: tuple[str, ...] = ()
    comments: tuple[str, ...] = ("comment",)


class ToolchainModule(Protocol):
    """The interface of a language's `toolchain` module."""

    INSTALL: str
    """The one command that installs it."""

    def find(self) -> Toolchain:
        """The toolchain of this machine. Raises ToolchainError."""


class Language(ABC):
    """A language that answers may be written in."""

    FENCES: ClassVar[tuple[str, ...]]
    """The names after a fence, the usual one first."""
    STOP: ClassVar[tuple[str, ...]] = ("\n}", "\n```")
    """What ends an answer that continues an open function: here the first closing brace without indentation, which
    extraction writes."""
    SYNTAX: ClassVar[Syntax]
    RESERVED: ClassVar[frozenset[str]]
    """Words of the language that no function or parameter may have as its name; an underscore is added to them."""
    TYPES: ClassVar[Mapping[str, str]]
    """How it writes types: `{0}` and `{1}` are the first two in the brackets, `{all}` is all of them."""
    PARAMETER: ClassVar[str] = "{type} {name}"
    RETURNS: ClassVar[str] = "{}"
    VOID: ClassVar[str] = "void"
    """What it writes in place of RETURNS for `none`."""
    HEAD: ClassVar[str] = "{returns} {name}({parameters}) {{\n"
    """How it opens a function."""
    NONE: ClassVar[str]
    """How it writes what is absent."""
    LEAST_INT: ClassVar[str] = str(_MIN_INT)
    FLOATS: ClassVar[Mapping[Json, str]]
    """The floats that are not written as Python does, by their JSON form."""
    ORACLE: ClassVar[str] = ""
    """What an oracle begins with."""
    RULE: ClassVar[str] = "  if ({}) {{ {}; }}\n"
    """How an oracle answers a case."""
    THROW: ClassVar[str]
    """How an oracle raises an exception with a text."""

    def __init__(self, name: str, label: str, toolchain: ToolchainModule) -> None:
        self.name, self.label, self.toolchain = name, label, toolchain

    def write_type(self, kind: Type) -> str:
        """The type as written in a declaration or a doc comment. Raises UnsupportedError."""
        if kind.name not in self.TYPES:
            raise UnsupportedError(f"{kind.name} as the type of a value")
        parts = [self.write_type(part) for part in kind.parts]
        return self.TYPES[kind.name].format(*parts, all=", ".join(parts))

    def write_text(self, value: str) -> str:
        """A literal of a string. Raises UnsupportedError, as the next ones do."""
        return json.dumps(value)

    def write_int(self, value: int) -> str:
        """A literal of an int."""
        if not _MIN_INT <= value < -_MIN_INT:
            raise UnsupportedError("an int beyond 64 bits")
        return self.LEAST_INT if value == _MIN_INT else str(value)

    @abstractmethod
    def write_container(self, value: Any, kind: Type) -> str:
        """An expression for a list, tuple or dict."""

    def write_present(self, value: object, kind: Type) -> str:
        """An expression for the value of an optional."""
        return self.write_literal(value, kind)

    def write_literal(self, value: object, kind: Type) -> str:
        """An expression for a Python value of that type. Raises UnsupportedError for one that it cannot express."""
        if value is None:
            return self.NONE
        if kind.name == "optional":
            return self.write_present(value, kind.item)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return self.write_text(value)
        if isinstance(value, float):
            return self.FLOATS.get(encode_float(value)) or repr(value)
        if isinstance(value, int):
            return self.write_int(value)
        if isinstance(value, list | tuple | dict):
            return self.write_container(value, kind)
        raise UnsupportedError(f"a {type(value).__name__}")

    def write_form(self, form: Json, kind: Type) -> str:
        """The same for a value in JSON form."""
        return self.write_literal(from_json(form, kind), kind)

    def write_items(self, values: list[Any] | tuple[Any, ...], kind: Type) -> list[str]:
        """The items of a list or of a tuple of that type."""
        kinds = [kind.item] * len(values) if isinstance(values, list) else kind.parts
        return [self.write_literal(item, part) for item, part in zip(values, kinds, strict=True)]

    @abstractmethod
    def build_files(self, program: str, signature: Signature) -> Mapping[str, str]:
        """The files of a judgement by name: the program, and its driver or its input."""

    @abstractmethod
    def build_test_files(self, program: str, test: str) -> Mapping[str, str]:
        """The files of a program that its test is part of: run, it exits with 0 if the test passes."""

    @abstractmethod
    def write_prompt(self, signature: Signature, text: str) -> str:
        """The doc comment and the head of the function, opened."""

    def write_example(self, call: str, result: str) -> str:
        """A call and its result, as a line of the doc comment."""
        return f"{call} // {result}"

    def write_head(self, signature: Signature) -> str:
        """The head of the function, opened."""
        parameters = [
            self.PARAMETER.format(name=each.name, type=self.write_type(each.type)) for each in signature.parameters
        ]
        returns = self.write_return_type(signature.returns)
        return self.HEAD.format(name=signature.name, parameters=", ".join(parameters), returns=returns)

    def write_return_type(self, kind: Type) -> str:
        """What the head of a function says that it returns."""
        return self.VOID if kind.name == "none" else self.RETURNS.format(self.write_type(kind))

    def write_oracle(self, signature: Signature, cases: Sequence[JsonCase]) -> str:
        """A program that answers from the table of cases."""
        parts = [self.ORACLE, self.write_head(signature)]
        for case in cases:
            given = map(self.write_equality, signature.parameters, case.args)
            parts.append(self.RULE.format(" && ".join(given) or "true", self.write_outcome(case, signature.returns)))
        return "".join([*parts, self.THROW.format(self.write_text("no case has these arguments")), ";\n}\n"])

    def write_equality(self, parameter: Parameter, form: Json) -> str:
        """Whether a parameter has the value of this JSON form, by the function `same` of ORACLE."""
        return f"same({parameter.name}, {self.write_form(form, parameter.type)})"

    def write_outcome(self, case: JsonCase, returns: Type) -> str:
        """The statement that a case ends with."""
        if case.raises:
            return self.THROW.format(self.write_text(case.raises))
        return "return" if returns.name == "none" else f"return {self.write_form(case.result, returns)}"


def quote_text(value: str, escape: Callable[[str], str]) -> str:
    """A literal in double quotes; `escape` writes what cannot be shown. Raises UnsupportedError for lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnsupportedError("a string that is not Unicode") from None
    return f'"{"".join(_ESCAPES.get(c) or (c if c.isprintable() else escape(c)) for c in value)}"'


def write_comment(text: str, prefix: str) -> str:
    """The lines of a text, each after the prefix."""
    return "".join(f"{prefix} {line}".rstrip() + "\n" for line in text.strip("\n").split("\n"))
