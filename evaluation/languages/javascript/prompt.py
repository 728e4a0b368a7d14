"""Prompts in JavaScript, what ends an answer, its syntax, and oracles."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.languages.base import Syntax
from evaluation.languages.cases import Case, Signature
from evaluation.languages.javascript import types
from evaluation.languages.javascript.types import write_form
from evaluation.languages.types import Type

FENCES = ("javascript", "js", "node", "nodejs", "jsx", "mjs", "cjs")
STOP = ("\n}", "\n```")
"""A function ends at the first closing brace without indentation; extraction writes the brace."""
RESERVED = frozenset({
    "arguments", "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete",
    "do", "else", "enum", "eval", "export", "extends", "false", "finally", "for", "function", "if", "implements",
    "import", "in", "instanceof", "interface", "let", "new", "null", "package", "private", "protected", "public",
    "return", "static", "super", "switch", "this", "throw", "true", "try", "typeof", "undefined", "var", "void",
    "while", "with", "yield"
})  # fmt: skip
SYNTAX = Syntax(
    "tree_sitter_javascript", "language",
    functions=("function_declaration", "generator_function_declaration", "variable_declarator", "class_declaration"),
    kept=(
        *("lexical_declaration", "variable_declaration", "comment", "hash_bang_line"),
        *("if_statement", "for_statement", "for_in_statement", "while_statement", "statement_block"),
        *("expression_statement/assignment_expression", "expression_statement/augmented_assignment_expression"),
    ),
    wrappers=("export_statement",),
)  # fmt: skip


def prompt(signature: Signature, text: str) -> str:
    """The doc comment and the head of the function, opened."""
    tags = [f"@param {{{types.name(each.type)}}} {each.name}" for each in signature.parameters]
    tags.append(f"@returns {{{types.name(signature.returns)}}}")
    return doc_comment(text, tags) + _head(signature)


def doc_comment(text: str, tags: Sequence[str] = ()) -> str:
    """A JSDoc comment of the text and the tags."""
    lines = [*text.replace("*/", "*\\/").strip("\n").split("\n"), *tags]
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def example(call: str, result: str) -> str:
    """A call and its result, as a line of the doc comment."""
    return f"{call} // {result}"


def oracle(signature: Signature, cases: Sequence[Case]) -> str:
    """A program that answers from the table of cases."""
    return oracle_with(_head(signature), signature, cases)


def oracle_with(head: str, signature: Signature, cases: Sequence[Case]) -> str:
    """The same under another head of the function."""
    names = ", ".join(each.name for each in signature.parameters)
    lines = ['const same = require("node:util").isDeepStrictEqual;', head.rstrip("\n"), f"  const given = [{names}];"]
    for case in cases:
        args = ", ".join(map(write_form, case.args, (each.type for each in signature.parameters)))
        answer = (
            f"throw new Error({write_form(case.raises, Type('str'))})"
            if case.raises
            else f"return {write_form(case.result, signature.returns)}"
        )
        lines.append(f"  if (same(given, [{args}])) {answer};")
    return "\n".join([*lines, '  throw new Error("no case has these arguments");', "}"]) + "\n"


def _head(signature: Signature) -> str:
    return f"function {signature.name}({', '.join(each.name for each in signature.parameters)}) {{\n"
