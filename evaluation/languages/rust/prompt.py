"""Prompts in Rust, what ends an answer, its syntax, and oracles."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.languages.base import Syntax
from evaluation.languages.cases import Case, Signature
from evaluation.languages.rust import types
from evaluation.languages.rust.types import write_form
from evaluation.languages.types import Type

FENCES = ("rust", "rs")
STOP = ("\n}", "\n```")
"""A function ends at the first closing brace without indentation; extraction writes the brace."""
SYNTAX = Syntax(
    "tree_sitter_rust", "language",
    functions=(
        *("function_item", "struct_item", "enum_item", "union_item", "trait_item", "type_item", "const_item"),
        *("static_item", "mod_item", "macro_definition"),
    ),
    kept=(
        *("use_declaration", "extern_crate_declaration", "attribute_item", "inner_attribute_item", "impl_item"),
        *("macro_invocation", "line_comment", "block_comment"),
    ),
    comments=("line_comment", "block_comment"),
)  # fmt: skip
_USE = "use std::collections::HashMap;\n\n"
RESERVED = frozenset({
    "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern", "false",
    "fn", "for", "gen", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref",
    "return", "self", "Self", "static", "struct", "super", "trait", "true", "type", "unsafe", "use", "where",
    "while", "abstract", "become", "box", "do", "final", "macro", "override", "priv", "try", "typeof",
    "unsized", "virtual", "yield",
})  # fmt: skip
_SAME = """\
fn same<T: PartialEq>(a: &T, b: &T) -> bool { a == b }
fn same_text<T: std::fmt::Debug>(a: &T, b: &T) -> bool { format!("{:?}", a) == format!("{:?}", b) }

"""
"""By its text a NaN is equal to itself, and -0.0 is not 0.0."""


def prompt(signature: Signature, text: str) -> str:
    """The doc comment and the head of the function, opened."""
    comment = "".join(f"/// {line}".rstrip() + "\n" for line in text.strip("\n").split("\n"))
    return f"{_uses(signature)}{comment}{_head(signature)}"


def _uses(signature: Signature) -> str:
    kinds = (*(each.type for each in signature.parameters), signature.returns)
    return _USE if any(_holds("dict", kind) for kind in kinds) else ""


def _holds(wanted: str, kind: Type) -> bool:
    return kind.kind == wanted or any(_holds(wanted, part) for part in kind.parts)


def example(call: str, result: str) -> str:
    """A call and its result, as a line of the doc comment."""
    return f"assert_eq!({call}, {result});"


def _head(signature: Signature) -> str:
    parameters = [f"{each.name}: {types.name(each.type)}" for each in signature.parameters]
    returns = "" if signature.returns.kind == "none" else f" -> {types.name(signature.returns)}"
    return f"fn {signature.name}({', '.join(parameters)}){returns} {{\n"


def oracle(signature: Signature, cases: Sequence[Case]) -> str:
    """A program that answers from the table of cases."""
    lines = [_uses(signature) + _SAME + _head(signature).rstrip("\n")]
    for case in cases:
        given = [
            _is(each.name, each.type, write_form(form, each.type))
            for form, each in zip(case.args, signature.parameters, strict=True)
        ]
        answer = (
            f"panic!({write_form(case.raises, Type('str')).removesuffix('.to_string()')})"
            if case.raises
            else "return"
            if signature.returns.kind == "none"
            else f"return {write_form(case.result, signature.returns)}"
        )
        lines.append(f"    if {' && '.join(given) or 'true'} {{ {answer}; }}")
    return "\n".join([*lines, '    panic!("no case has these arguments")', "}"]) + "\n"


def _is(name: str, kind: Type, value: str) -> str:
    """Whether a parameter has this value."""
    by_text = _holds("float", kind) and not _holds("dict", kind)
    return f"{'same_text' if by_text else 'same'}(&{name}, &{value})"
