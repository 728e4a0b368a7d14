"""TypeScript: what differs from JavaScript is types in the head of the function, and that Node removes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evaluation.languages.cases import Signature
from evaluation.languages.javascript.language import JavaScript, write_doc_comment
from evaluation.languages.types import Type

_START = 'module._compile(({})(require("node:fs").readFileSync("answer.ts", "utf8")), "answer.ts");\n'


class TypeScript(JavaScript):
    """TypeScript."""

    FENCES = ("typescript", "ts", "tsx", "mts", "cts", *JavaScript.FENCES)
    SYNTAX = replace(
        JavaScript.SYNTAX,
        grammar="tree_sitter_typescript",
        factory="language_typescript",
        definitions=(*JavaScript.SYNTAX.definitions, "abstract_class_declaration"),
        kept=(
            *JavaScript.SYNTAX.kept,
            *("interface_declaration", "type_alias_declaration", "enum_declaration", "ambient_declaration", "module"),
        ),
    )
    PARAMETER, VOID = "{name}: {type}", "null"
    HEAD = "function {name}({parameters}): {returns} {{\n"
    TO_SCRIPT = '(text) => require("node:module").stripTypeScriptTypes(text, { mode: "transform" })'
    """`transform` also knows what has an effect: enums, namespaces and parameter properties."""

    def write_type(self, kind: Type) -> str:
        """The type as a declaration writes it."""
        if kind.name == "dict":
            key = "number" if kind.parts[0].name in ("int", "float") else "string"
            return f"Record<{key}, {self.write_type(kind.parts[1])}>"
        return super().write_type(kind)

    def build_test_files(self, program: str, test: str) -> Mapping[str, str]:
        """The files of a program that its test is part of."""
        return {"driver.cjs": _START.format(self.TO_SCRIPT), "answer.ts": f"{program}\n{test}"}

    def write_prompt(self, signature: Signature, text: str) -> str:
        """The doc comment and the head of the function, opened."""
        return write_doc_comment(text) + self.write_head(signature)


LANGUAGE = TypeScript
