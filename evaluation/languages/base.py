"""What every language provides: a toolchain, types and literals, drivers, prompts and oracles. See docs/languages.md.

A language is a folder with the modules `toolchain` and `language`, and one line in `registry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from evaluation.languages.cases import JsonCase, Signature
from evaluation.languages.types import Type
from evaluation.languages.values import Json, encode_float, from_json
from evaluation.sandbox.programs import Tools

_MIN_INT = -(2**63)


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
    NONE: ClassVar[str]
    """How it writes what is absent."""
    FLOATS: ClassVar[Mapping[Json, str]]
    """The floats that are not written as Python does, by their JSON form."""

    def __init__(self, name: str, label: str, toolchain: ToolchainModule) -> None:
        self.name, self.label, self.toolchain = name, label, toolchain

    @abstractmethod
    def write_type(self, kind: Type) -> str:
        """The type as written in a declaration or a doc comment. Raises UnsupportedError."""

    @abstractmethod
    def write_text(self, value: str) -> str:
        """A literal of a string. Raises UnsupportedError, as the next ones do."""

    @abstractmethod
    def write_int(self, value: int) -> str:
        """A literal of an int."""

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

    @abstractmethod
    def write_oracle(self, signature: Signature, cases: Sequence[JsonCase]) -> str:
        """A program that answers from the table of cases."""


def write_int64(value: int, least: str | None = None) -> str:
    """A 64-bit integer; `least` is how the language writes the smallest. Raises UnsupportedError for others."""
    if not _MIN_INT <= value < -_MIN_INT:
        raise UnsupportedError("an int beyond 64 bits")
    return least if least and value == _MIN_INT else str(value)


def require_unicode(value: str) -> str:
    """Returns the text. Raises UnsupportedError for one with a lone surrogate."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnsupportedError("a string that is not Unicode") from None
    return value
