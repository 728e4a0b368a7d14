"""Types, literals, prompts and oracles in Java.

An int is a long, an optional a value or null, a tuple a List: of its items' type where they have one, else of Object.
The driver is compiled once and calls the answer by reflection; it reads the signature from a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar

from evaluation.languages.base import Language, Syntax, UnsupportedError, write_comment
from evaluation.languages.cases import JsonCase, Signature
from evaluation.languages.types import Type

PAIR = (resources.files("evaluation.languages.java") / "Pair.java").read_text("utf-8")
_IMPORTS = "import java.util.*;\nimport java.util.stream.*;\n"
_SIMPLE = {"bool": "boolean", "int": "long", "float": "double", "str": "String"}
_MAX_OF = 10
"""How many pairs Map.of takes."""


class Java(Language):
    """Java."""

    FENCES = ("java",)
    STOP = ("\n    }", "\n```")
    """A method ends at the first brace with the indentation of its head; extraction writes it and the class's."""
    SYNTAX = Syntax(
        "tree_sitter_java", "language",
        definitions=("method_declaration",),
        kept=(
            *("class_declaration", "interface_declaration", "enum_declaration", "record_declaration"),
            *("annotation_type_declaration", "package_declaration", "import_declaration"),
            *("line_comment", "block_comment"),
        ),
        comments=("line_comment", "block_comment"),
    )  # fmt: skip
    RESERVED = frozenset({
        *("abstract", "assert", "boolean", "break", "byte", "case", "catch", "char", "class", "const", "continue"),
        *("default", "do", "double", "else", "enum", "extends", "false", "final", "finally", "float", "for", "goto"),
        *("if", "implements", "import", "instanceof", "int", "interface", "long", "native", "new", "null", "package"),
        *("private", "protected", "public", "return", "short", "static", "strictfp", "super", "switch", "synchronized"),
        *("this", "throw", "throws", "transient", "true", "try", "void", "volatile", "while", "_"),
    })  # fmt: skip
    TYPES: ClassVar = {
        **{"bool": "Boolean", "int": "Long", "float": "Double", "str": "String"},
        **{"list": "List<{0}>", "dict": "Map<{0}, {1}>", "optional": "{0}"},
    }
    """In the brackets of another, where Java allows no primitive type."""
    HEAD = "    public static {returns} {name}({parameters}) {{\n"
    NONE = "null"
    FLOATS: ClassVar = {"nan": "Double.NaN", "inf": "Double.POSITIVE_INFINITY", "-inf": "Double.NEGATIVE_INFINITY"}
    THROW = "throw new RuntimeException({})"

    def write_type(self, kind: Type) -> str:
        """The type as a declaration writes it."""
        return _SIMPLE.get(kind.name) or self._write_boxed_type(kind)

    def _write_boxed_type(self, kind: Type) -> str:
        if kind.name not in (*self.TYPES, "tuple"):
            raise UnsupportedError(f"{kind.name} as the type of a value")
        parts = [self._write_boxed_type(part) for part in kind.parts]
        if kind.name == "tuple":
            return f"List<{parts[0] if len(set(parts)) == 1 else 'Object'}>"
        return self.TYPES[kind.name].format(*parts)

    def write_int(self, value: int) -> str:
        """A literal of an int."""
        return f"{super().write_int(value)}L"

    def write_container(self, value: Any, kind: Type) -> str:
        """An expression for a list, tuple or dict."""
        if isinstance(value, dict):
            write, (key_kind, item_kind) = self.write_literal, kind.parts
            return _write_map([(write(key, key_kind), write(item, item_kind)) for key, item in value.items()])
        items = self.write_items(value, kind)
        return f"List.of({', '.join(items)})" if "null" not in items else _write_nullable(items)

    def build_files(self, program: str, signature: Signature) -> Mapping[str, str]:
        """The files of a judgement."""
        lines = [signature.name, *(str(each.type) for each in signature.parameters), str(signature.returns)]
        return {"program.java": program, "signature": "\n".join(lines) + "\n"}

    def build_test_files(self, program: str, test: str) -> Mapping[str, str]:
        """The files of a program that its test is part of: the test has the last class with `main`."""
        return {"program.java": f"{program}\n{test}", "signature": "main\n", "Pair.java": PAIR}

    def write_prompt(self, signature: Signature, text: str) -> str:
        """The class, the doc comment and the head of the method, opened."""
        comment = write_comment(text.replace("*/", "*\\/").replace("\\u", "\\\\u"), "     *")
        return f"{_IMPORTS}\nclass Solution {{\n    /**\n{comment}     */\n{self.write_head(signature)}"

    def write_oracle(self, signature: Signature, cases: Sequence[JsonCase]) -> str:
        """A program that answers from the table of cases, each in a method of its own: methods have a limit."""
        given, returns = (
            ", ".join(each.name for each in signature.parameters),
            self.write_return_type(signature.returns),
        )
        lines = [f"{_IMPORTS}\nclass Solution {{"]
        for number, case in enumerate(cases):
            args = list(map(self.write_form, case.args, (each.type for each in signature.parameters)))
            lines += [
                f"    static List<Object> args{number}() {{ return new ArrayList<>({_write_nullable(args)}); }}",
                f"    static {returns} result{number}() {{ {self.write_outcome(case, signature.returns)}; }}",
            ]
        lines.append(self.write_head(signature).rstrip("\n"))
        lines.append(f"        List<Object> given = Arrays.<Object>asList({given});")
        leaving = "{{ result{0}(); return; }}" if signature.returns.name == "none" else "return result{0}();"
        lines += [f"        if (given.equals(args{n}())) {leaving.format(n)}" for n in range(len(cases))]
        lines += ['        throw new IllegalArgumentException("no case has these arguments");', "    }", "}"]
        return "\n".join(lines) + "\n"


def _write_nullable(items: list[str]) -> str:
    """A List that may hold null, which List.of refuses."""
    return "Collections.singletonList(null)" if items == ["null"] else f"Arrays.asList({', '.join(items)})"


def _write_map(pairs: list[tuple[str, str]]) -> str:
    if any(item == "null" for _, item in pairs):
        raise UnsupportedError("none as a value of a dict")
    if len(pairs) <= _MAX_OF:
        return f"Map.of({', '.join(f'{key}, {item}' for key, item in pairs)})"
    return f"Map.ofEntries({', '.join(f'Map.entry({key}, {item})' for key, item in pairs)})"


LANGUAGE = Java
