"""Prompts in Go, what ends an answer, its syntax, and oracles."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evaluation.languages.base import Syntax
from evaluation.languages.cases import Case, Signature
from evaluation.languages.go import types
from evaluation.languages.go.types import write_form
from evaluation.languages.types import Type
from evaluation.languages.values import from_json

FENCES = ("go", "golang")
STOP = ("\n}", "\n```")
"""A function ends at the first closing brace without indentation; extraction writes the brace."""
RESERVED = frozenset({
    *("break", "case", "chan", "const", "continue", "default", "defer", "else", "fallthrough", "for", "func", "go"),
    *("goto", "if", "import", "init", "interface", "main", "map", "package", "range", "return", "select", "struct"),
    *("switch", "type", "var", "any", "append", "bool", "byte", "cap", "copy", "error", "false", "float64", "int"),
    *("len", "make", "max", "min", "new", "nil", "panic", "rune", "string", "true"),
})  # fmt: skip
"""Keywords, and builtins that an answer would miss under a parameter of the same name."""
SYNTAX = Syntax(
    "tree_sitter_go", "language",
    functions=("function_declaration", "method_declaration", "type_spec", "type_alias", "const_spec", "var_spec"),
    kept=(
        *("package_clause", "import_declaration", "comment"),
        *("type_declaration", "const_declaration", "var_declaration"),
    ),
)  # fmt: skip
_TUPLE = re.compile(r"(?:\[\d+\][^{}]+|struct\{ [^{}]* \})\{(.*)\}", re.DOTALL)
_SAME = """
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Float64:
		x, y := a.Float(), b.Float()
		return math.Float64bits(x) == math.Float64bits(y) || math.IsNaN(x) && math.IsNaN(y)
	case reflect.Pointer:
		return a.IsNil() == b.IsNil() && (a.IsNil() || same(a.Elem(), b.Elem()))
	case reflect.Slice, reflect.Array:
		for i := 0; a.Len() == b.Len() && i < a.Len(); i++ {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return a.Len() == b.Len()
	case reflect.Struct:
		for i := 0; i < a.NumField(); i++ {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		for _, key := range a.MapKeys() {
			if other := b.MapIndex(key); !other.IsValid() || !same(a.MapIndex(key), other) {
				return false
			}
		}
		return a.Len() == b.Len()
	}
	return a.Interface() == b.Interface()
}
"""


def prompt(signature: Signature, text: str) -> str:
    """The doc comment and the head of the function, opened."""
    lines = text.strip("\n").split("\n")
    return "package main\n\n" + "".join(f"// {line}".rstrip() + "\n" for line in lines) + _head(signature)


def example(call: str, result: str) -> str:
    """A call and its result, as a line of the doc comment; a tuple is several results."""
    several = _TUPLE.fullmatch(result)
    return f"{call} // {several[1] if several else result}"


def oracle(signature: Signature, cases: Sequence[Case]) -> str:
    """A program that answers from the table of cases."""
    lines = ["package main", "", 'import ("math"; "reflect")', _SAME, _head(signature).rstrip("\n")]
    for case in cases:
        tests = [
            f"same(reflect.ValueOf({each.name}), reflect.ValueOf({_typed(form, each.type)}))"
            for each, form in zip(signature.parameters, case.args, strict=True)
        ]
        lines += [f"\tif {' && '.join(tests) or 'true'} {{", f"\t\t{_outcome(case, signature.returns)}", "\t}"]
    return "\n".join([*lines, '\tpanic("no case has these arguments")', "}"]) + "\n"


def _typed(form: object, kind: Type) -> str:
    """A literal that has its type alone."""
    text = write_form(form, kind)
    return f"({types.name(kind)})({text})" if not kind.parts or kind.kind == "optional" else text


def _outcome(case: Case, returns: Type) -> str:
    if case.raises:
        return f"panic({write_form(case.raises, Type('str'))})"
    if returns.kind == "none":
        return "return"
    value = from_json(case.result, returns)
    if returns.kind == "tuple" and isinstance(value, tuple):
        return f"return {', '.join(types.literal(item, part) for item, part in zip(value, returns.parts, strict=True))}"
    return f"return {types.literal(value, returns)}"


def _head(signature: Signature) -> str:
    parameters = ", ".join(f"{each.name} {types.name(each.type)}" for each in signature.parameters)
    return f"func {signature.name}({parameters}){_returns(signature.returns)} {{\n"


def _returns(kind: Type) -> str:
    """A tuple is returned as several results."""
    if kind.kind == "none":
        return ""
    if kind.kind == "tuple":
        return f" ({', '.join(map(types.name, kind.parts))})"
    return f" {types.name(kind)}"
