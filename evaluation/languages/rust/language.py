"""Types, literals, drivers, prompts and oracles in Rust. The driver is the crate of driver.rs, compiled before, with an
entry that reads the arguments by their types. Values are owned in every position: `String` and `Vec`, never `&str`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar

from evaluation.languages.base import Language, Syntax, UnsupportedError, require_unicode, write_int64
from evaluation.languages.cases import JsonCase, Signature
from evaluation.languages.types import Type

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
_SIMPLE = {"bool": "bool", "int": "i64", "float": "f64", "str": "String", "none": "Option<()>"}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


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
    NONE = "None"
    FLOATS: ClassVar = {"nan": "f64::NAN", "inf": "f64::INFINITY", "-inf": "f64::NEG_INFINITY"}

    def write_type(self, kind: Type) -> str:
        """The type as a declaration writes it. Raises UnsupportedError for keys and tuples that Rust cannot express."""
        if kind.name in _SIMPLE:
            return _SIMPLE[kind.name]
        parts = [self.write_type(part) for part in kind.parts]
        if kind.name == "list":
            return f"Vec<{parts[0]}>"
        if kind.name == "optional":
            return f"Option<{parts[0]}>"
        if kind.name == "dict":
            if parts[0] == "f64":
                raise UnsupportedError("a dict with float keys")
            return f"HashMap<{parts[0]}, {parts[1]}>"
        if len(parts) > MAX_TUPLE:
            raise UnsupportedError(f"a tuple of more than {MAX_TUPLE}")
        return _format_tuple(parts)

    def write_text(self, value: str) -> str:
        """A literal of a string."""
        return f"{_quote(value)}.to_string()"

    def write_int(self, value: int) -> str:
        """A literal of an int."""
        return write_int64(value, "i64::MIN")

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
        comment = "".join(f"/// {line}".rstrip() + "\n" for line in text.strip("\n").split("\n"))
        return f"{_format_uses(signature)}{comment}{self._write_head(signature)}"

    def write_example(self, call: str, result: str) -> str:
        """A call and its result, as a line of the doc comment."""
        return f"assert_eq!({call}, {result});"

    def write_oracle(self, signature: Signature, cases: Sequence[JsonCase]) -> str:
        """A program that answers from the table of cases."""
        lines = [_format_uses(signature) + _SAME + self._write_head(signature).rstrip("\n")]
        for case in cases:
            given = [
                _write_equality(each.name, each.type, self.write_form(form, each.type))
                for form, each in zip(case.args, signature.parameters, strict=True)
            ]
            answer = (
                f"panic!({_quote(case.raises)})"
                if case.raises
                else "return"
                if signature.returns.name == "none"
                else f"return {self.write_form(case.result, signature.returns)}"
            )
            lines.append(f"    if {' && '.join(given) or 'true'} {{ {answer}; }}")
        return "\n".join([*lines, '    panic!("no case has these arguments")', "}"]) + "\n"

    def _write_head(self, signature: Signature) -> str:
        parameters = [f"{each.name}: {self.write_type(each.type)}" for each in signature.parameters]
        returns = "" if signature.returns.name == "none" else f" -> {self.write_type(signature.returns)}"
        return f"fn {signature.name}({', '.join(parameters)}){returns} {{\n"


def _format_tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _quote(value: str) -> str:
    text = "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in require_unicode(value))
    return f'"{text}"'


def _format_uses(signature: Signature) -> str:
    kinds = (*(each.type for each in signature.parameters), signature.returns)
    return _USE if any(_is_holding("dict", kind) for kind in kinds) else ""


def _is_holding(wanted: str, kind: Type) -> bool:
    return kind.name == wanted or any(_is_holding(wanted, part) for part in kind.parts)


def _write_equality(name: str, kind: Type, value: str) -> str:
    """Whether a parameter has this value."""
    by_text = _is_holding("float", kind) and not _is_holding("dict", kind)
    return f"{'same_text' if by_text else 'same'}(&{name}, &{value})"


LANGUAGE = Rust
