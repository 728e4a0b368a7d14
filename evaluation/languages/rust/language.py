"""Types, literals, drivers, prompts and oracles in Rust. The driver is the crate of driver.rs, compiled before, with an
entry that reads the arguments by their types. Values are owned in every position: `String` and `Vec`, never `&str`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any, ClassVar

from evaluation.languages.base import Language, Syntax, UnsupportedError, quote_text, write_comment
from evaluation.languages.cases import Parameter, Signature
from evaluation.languages.types import Type
from evaluation.languages.values import Json

CRATE = (resources.files("evaluation.languages.rust") / "driver.rs").read_text("utf-8")
_MAIN = """\
#[path = "answer.rs"]
mod answer;

fn main() {
    bassline_driver::serve(answer::bassline_entry::answer);
}
"""
_ENTRY = """\
use std::collections::HashMap;

pub fn answer(args: &mut bassline_driver::Line, out: &mut String) {{
{reads}    {call};
    bassline_driver::Form::write(&result, out);
}}
"""
_LAST = """
use std::collections::*;
#[path = "entry.rs"]
pub mod bassline_entry;
"""
"""After the answer, so that its own attributes are first. Its own names win over the ones of a glob."""
_USE = "use std::collections::HashMap;\n\n"
_SAME = """\
fn same<T: PartialEq>(a: &T, b: &T) -> bool { a == b }
fn same_text<T: std::fmt::Debug>(a: &T, b: &T) -> bool { format!("{:?}", a) == format!("{:?}", b) }

"""
"""By its text a NaN is equal to itself, and -0.0 is not 0.0."""
MAX_TUPLE = 12
"""The standard library's own traits, such as PartialEq, end there."""


class Rust(Language):
    """Rust."""

    FENCES = ("rust", "rs")
    SYNTAX = Syntax(
        "tree_sitter_rust", "language",
        definitions=(
            *("function_item", "struct_item", "enum_item", "union_item", "trait_item", "type_item", "const_item"),
            *("static_item", "mod_item", "macro_definition"),
        ),
        kept=(
            *("use_declaration", "extern_crate_declaration", "attribute_item", "inner_attribute_item", "impl_item"),
            *("macro_invocation", "line_comment", "block_comment"),
        ),
        comments=("line_comment", "block_comment"),
    )  # fmt: skip
    RESERVED = frozenset({
        "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern", "false",
        "fn", "for", "gen", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref",
        "return", "self", "Self", "static", "struct", "super", "trait", "true", "type", "unsafe", "use", "where",
        "while", "abstract", "become", "box", "do", "final", "macro", "override", "priv", "try", "typeof",
        "unsized", "virtual", "yield",
    })  # fmt: skip
    TYPES: ClassVar = {
        **{"bool": "bool", "int": "i64", "float": "f64", "str": "String", "none": "Option<()>"},
        **{"list": "Vec<{0}>", "dict": "HashMap<{0}, {1}>", "optional": "Option<{0}>"},
    }
    PARAMETER, RETURNS, VOID = "{name}: {type}", " -> {}", ""
    HEAD = "fn {name}({parameters}){returns} {{\n"
    NONE = "None"
    LEAST_INT = "i64::MIN"
    FLOATS: ClassVar = {"nan": "f64::NAN", "inf": "f64::INFINITY", "-inf": "f64::NEG_INFINITY"}
    ORACLE = f"{_USE}{_SAME}"
    RULE = "    if {} {{ {}; }}\n"
    THROW = 'panic!("{{}}", {})'

    def write_type(self, kind: Type) -> str:
        """The type as a declaration writes it. Raises UnsupportedError for keys and tuples that Rust cannot express."""
        if kind.name == "dict" and kind.parts[0].name == "float":
            raise UnsupportedError("a dict with float keys")
        if len(kind.parts) > MAX_TUPLE:
            raise UnsupportedError(f"a tuple of more than {MAX_TUPLE}")
        return (
            _format_tuple(list(map(self.write_type, kind.parts))) if kind.name == "tuple" else super().write_type(kind)
        )

    def write_text(self, value: str) -> str:
        """A literal of a string."""
        literal = quote_text(value, lambda c: f"\\u{{{ord(c):x}}}")
        return f"{literal}.to_string()"

    def write_present(self, value: object, kind: Type) -> str:
        """An expression for the value of an optional."""
        return f"Some({self.write_literal(value, kind)})"

    def write_container(self, value: Any, kind: Type) -> str:
        """An expression for a list, tuple or dict."""
        if isinstance(value, dict):
            pairs = [
                _format_tuple([self.write_literal(key, kind.parts[0]), self.write_literal(item, kind.parts[1])])
                for key, item in value.items()
            ]
            return f"HashMap::from([{', '.join(pairs)}])"
        items = self.write_items(value, kind)
        return _format_tuple(items) if isinstance(value, tuple) else f"vec![{', '.join(items)}]"

    def build_files(self, program: str, signature: Signature) -> Mapping[str, str]:
        """The files of a judgement. The answer is a module, so that a `main` of its own is an ordinary function."""
        names = [f"a{position}" for position in range(len(signature.parameters))]
        reads = "".join(
            f"    let {name}: {self.write_type(parameter.type)} = args.next();\n"
            for name, parameter in zip(names, signature.parameters, strict=True)
        )
        call = f"super::{signature.name}({', '.join(names)})"
        if signature.returns.name == "none":
            call += ";\n    let result = None::<()>"
        else:
            call = f"let result: {self.write_type(signature.returns)} = {call}"
        entry = _ENTRY.format(reads=reads, call=call)
        return {"main.rs": _MAIN, "answer.rs": program + _LAST, "entry.rs": entry}

    def build_test_files(self, program: str, test: str) -> Mapping[str, str]:
        """The files of a program that its test is part of: the test has `main`."""
        return {"main.rs": f"{program}\n{test}"}

    def write_prompt(self, signature: Signature, text: str) -> str:
        """The doc comment and the head of the function, opened."""
        kinds = (*(each.type for each in signature.parameters), signature.returns)
        uses = _USE if any(_is_holding("dict", kind) for kind in kinds) else ""
        return f"{uses}{write_comment(text, '///')}{self.write_head(signature)}"

    def write_example(self, call: str, result: str) -> str:
        """A call and its result, as a line of the doc comment."""
        return f"assert_eq!({call}, {result});"

    def write_equality(self, parameter: Parameter, form: Json) -> str:
        """Whether a parameter has this value."""
        by_text = _is_holding("float", parameter.type) and not _is_holding("dict", parameter.type)
        same = "same_text" if by_text else "same"
        return f"{same}(&{parameter.name}, &{self.write_form(form, parameter.type)})"


def _format_tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _is_holding(wanted: str, kind: Type) -> bool:
    return kind.name == wanted or any(_is_holding(wanted, part) for part in kind.parts)


LANGUAGE = Rust
