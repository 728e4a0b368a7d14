"""What every language provides: a toolchain, names and literals of types, a driver, and prompts. See docs/languages.md.

A language is a folder with the four modules `toolchain`, `types`, `driver` and `prompt`, whose functions are declared
here, and one line in `registry`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from evaluation.languages.cases import Case, Signature
from evaluation.languages.types import Type
from evaluation.sandbox.programs import Tools


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

    `functions` are the node types that define a function, a class or a variable, with a field `name` or `declarator`;
    `kept` the other top-level node types that stay in a program unless they use its function ("outer/inner" also asks
    for the type of the first child). `wrappers` are nodes around a definition, such as an export: their content is
    taken out. A top-level node of another type is a demonstration and is left out.
    """

    grammar: str  # the module of the grammar
    factory: str  # its function that returns the language
    functions: tuple[str, ...]
    kept: tuple[str, ...]
    wrappers: tuple[str, ...] = ()
    comments: tuple[str, ...] = ("comment",)


class ToolchainPart(Protocol):
    """`toolchain.py`."""

    INSTALL: str
    """The one command that installs it."""

    def find(self) -> Toolchain:
        """The toolchain of this machine. Raises ToolchainError."""


class TypesPart(Protocol):
    """`types.py`."""

    def name(self, kind: Type) -> str:
        """The type as written in a declaration or a doc comment. Raises UnsupportedError."""

    def literal(self, value: object, kind: Type) -> str:
        """An expression for a Python value of that type. Raises UnsupportedError, also for an int out of range."""


class DriverPart(Protocol):
    """`driver.py`."""

    def files(self, program: str, signature: Signature) -> Mapping[str, str]:
        """The files of a judgement by name: the program, and the driver that calls it."""

    def whole(self, program: str, test: str) -> Mapping[str, str]:
        """The files of a program that its test is part of: run, it exits with 0 if the test passes."""


class PromptPart(Protocol):
    """`prompt.py`."""

    FENCES: tuple[str, ...]
    """The names after a fence, the usual one first."""
    STOP: tuple[str, ...]
    """What ends an answer that continues an open function."""
    SYNTAX: Syntax
    RESERVED: frozenset[str]
    """Words of the language that no function or parameter may have as its name; an underscore is added to them."""

    def prompt(self, signature: Signature, text: str) -> str:
        """The doc comment and the head of the function, opened."""

    def example(self, call: str, result: str) -> str:
        """A call and its result, as lines of the doc comment."""

    def oracle(self, signature: Signature, cases: Sequence[Case]) -> str:
        """A program that answers from the table of cases."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language that answers may be written in."""

    name: str
    label: str
    toolchain: ToolchainPart = field(repr=False)
    types: TypesPart = field(repr=False)
    driver: DriverPart = field(repr=False)
    prompt: PromptPart = field(repr=False)
