"""The driver in Rust: the crate of driver.rs, compiled before, and an entry that reads the arguments by their types."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from evaluation.languages.cases import Signature
from evaluation.languages.rust import types

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


def files(program: str, signature: Signature) -> Mapping[str, str]:
    """The files of a judgement. The answer is a module, so that a `main` of its own is an ordinary function."""
    names = [f"a{position}" for position in range(len(signature.parameters))]
    reads = "".join(
        f"    let {name}: {types.name(parameter.type)} = args.next();\n"
        for name, parameter in zip(names, signature.parameters, strict=True)
    )
    call = f"super::{signature.name}({', '.join(names)})"
    if signature.returns.kind == "none":
        call += ";\n    let result = None::<()>"
    else:
        call = f"let result: {types.name(signature.returns)} = {call}"
    entry = _ENTRY.format(reads=reads, call=call)
    return {"main.rs": _MAIN, "answer.rs": program + _LAST, "entry.rs": entry}


def whole(program: str, test: str) -> Mapping[str, str]:
    """The files of a program that its test is part of: the test has `main`."""
    return {"main.rs": f"{program}\n{test}"}
