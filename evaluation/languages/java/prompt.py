"""Prompts in Java, what ends an answer, its syntax, and oracles."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.languages.base import Syntax
from evaluation.languages.cases import Case, Signature
from evaluation.languages.java import types
from evaluation.languages.java.types import write_form
from evaluation.languages.types import Type

FENCES = ("java",)
STOP = ("\n    }", "\n```")
"""A method ends at the first closing brace with the indentation of its head; extraction writes it and the class's."""
RESERVED = frozenset({
    *("abstract", "assert", "boolean", "break", "byte", "case", "catch", "char", "class", "const", "continue"),
    *("default", "do", "double", "else", "enum", "extends", "false", "final", "finally", "float", "for", "goto", "if"),
    *("implements", "import", "instanceof", "int", "interface", "long", "native", "new", "null", "package", "private"),
    *("protected", "public", "return", "short", "static", "strictfp", "super", "switch", "synchronized", "this"),
    *("throw", "throws", "transient", "true", "try", "void", "volatile", "while", "_"),
})  # fmt: skip
SYNTAX = Syntax(
    "tree_sitter_java", "language",
    functions=("method_declaration",),
    kept=(
        *("class_declaration", "interface_declaration", "enum_declaration", "record_declaration"),
        *("annotation_type_declaration", "package_declaration", "import_declaration", "line_comment", "block_comment"),
    ),
    comments=("line_comment", "block_comment"),
)  # fmt: skip
_IMPORTS = "import java.util.*;\nimport java.util.stream.*;\n"


def prompt(signature: Signature, text: str) -> str:
    """The class, the doc comment and the head of the method, opened."""
    lines = text.replace("*/", "*\\/").replace("\\u", "\\\\u").strip("\n").split("\n")
    comment = "    /**\n" + "".join(f"     * {line}".rstrip() + "\n" for line in lines) + "     */\n"
    return f"{_IMPORTS}\nclass Solution {{\n{comment}{_head(signature)}"


def example(call: str, result: str) -> str:
    """A call and its result, as a line of the doc comment."""
    return f"{call} // {result}"


def oracle(signature: Signature, cases: Sequence[Case]) -> str:
    """A program that answers from the table of cases; each case has a method of its own, as methods have a limit."""
    given = ", ".join(each.name for each in signature.parameters)
    lines = [f"{_IMPORTS}\nclass Solution {{"]
    for number, case in enumerate(cases):
        args = list(map(write_form, case.args, (each.type for each in signature.parameters)))
        lines += [
            f"    static List<Object> args{number}() {{ return new ArrayList<>({types.nullable(args)}); }}",
            f"    static {_returns(signature)} result{number}() {{ {_outcome(case, signature.returns)} }}",
        ]
    lines.append(_head(signature).rstrip("\n"))
    lines.append(f"        List<Object> given = Arrays.<Object>asList({given});")
    leaving = "{{ result{0}(); return; }}" if signature.returns.kind == "none" else "return result{0}();"
    lines += [f"        if (given.equals(args{n}())) {leaving.format(n)}" for n in range(len(cases))]
    lines += ['        throw new IllegalArgumentException("no case has these arguments");', "    }", "}"]
    return "\n".join(lines) + "\n"


def _outcome(case: Case, returns: Type) -> str:
    if case.raises:
        return f"throw new RuntimeException({write_form(case.raises, Type('str'))});"
    return "" if returns.kind == "none" else f"return {write_form(case.result, returns)};"


def _head(signature: Signature) -> str:
    parameters = ", ".join(f"{types.name(each.type)} {each.name}" for each in signature.parameters)
    return f"    public static {_returns(signature)} {signature.name}({parameters}) {{\n"


def _returns(signature: Signature) -> str:
    return "void" if signature.returns.kind == "none" else types.name(signature.returns)
