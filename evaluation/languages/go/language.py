"""Types, literals, drivers, prompts and oracles in Go. The driver is a function beside the answer.

A tuple is an array where its items have one type, else a struct with the fields V0, V1, ...; an optional is a pointer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from evaluation.languages.base import Language, Syntax, quote_text, write_comment
from evaluation.languages.cases import JsonCase, Parameter, Signature
from evaluation.languages.types import Type
from evaluation.languages.values import Json, from_json

_TEST = re.compile(r"^func (Test\w*)\(\w+ \*testing\.T\)", re.MULTILINE)
_TESTING = """\
package answer
import bassline_testing "testing"
func Bassline_() any { return nil }
func init() {
	all := func(_, _ string) (bool, error) { return true, nil }
	bassline_testing.Main(all, []bassline_testing.InternalTest{%s}, nil, nil)
}
"""
"""What `go test` does, before the driver reads a case: `Main` exits with 0 if every test passed."""
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


class Go(Language):
    """Go."""

    FENCES = ("go", "golang")
    SYNTAX = Syntax(
        "tree_sitter_go", "language",
        definitions=("function_declaration", "method_declaration", "type_spec", "type_alias", "const_spec", "var_spec"),
        kept=(
            *("package_clause", "import_declaration", "comment"),
            *("type_declaration", "const_declaration", "var_declaration"),
        ),
    )  # fmt: skip
    RESERVED = frozenset({
        *("break", "case", "chan", "const", "continue", "default", "defer", "else", "fallthrough", "for", "func", "go"),
        *("goto", "if", "import", "init", "interface", "main", "map", "package", "range", "return", "select", "struct"),
        *("switch", "type", "var", "any", "append", "bool", "byte", "cap", "copy", "error", "false", "float64", "int"),
        *("len", "make", "max", "min", "new", "nil", "panic", "rune", "string", "true"),
    })  # fmt: skip
    """Keywords, and builtins that an answer would miss under a parameter of the same name."""
    TYPES: ClassVar = {
        **{"bool": "bool", "int": "int", "float": "float64", "str": "string"},
        **{"list": "[]{0}", "dict": "map[{0}]{1}", "optional": "*{0}"},
    }
    PARAMETER, RETURNS, VOID = "{name} {type}", " {}", ""
    HEAD = "func {name}({parameters}){returns} {{\n"
    NONE = "nil"
    FLOATS: ClassVar = {"nan": "math.NaN()", "inf": "math.Inf(1)", "-inf": "math.Inf(-1)", "-0": "math.Copysign(0, -1)"}
    ORACLE = f'package main\n\nimport ("math"; "reflect")\n{_SAME}\n'
    RULE = "\tif {} {{ {} }}\n"
    THROW = "panic({})"

    def write_type(self, kind: Type) -> str:
        """The type as a declaration writes it."""
        if kind.name != "tuple":
            return super().write_type(kind)
        parts = [self.write_type(part) for part in kind.parts]
        if _is_array(kind):
            return f"[{len(parts)}]{parts[0]}"
        return "struct{ " + "; ".join(f"V{position} {part}" for position, part in enumerate(parts)) + " }"

    def write_text(self, value: str) -> str:
        """A literal of a string."""
        return quote_text(value, lambda c: f"\\U{ord(c):08x}")

    def write_present(self, value: object, kind: Type) -> str:
        """An expression for the value of an optional."""
        inner = self.write_literal(value, kind)
        return f"&{inner}" if kind.parts else f"new({inner})"

    def write_container(self, value: object, kind: Type) -> str:
        """An expression for a list, tuple or dict."""
        return self.write_type(kind) + self._write_items_in_braces(value, kind)

    def _write_items_in_braces(self, value: object, kind: Type) -> str:
        """The items in braces; the type of an inner list, dict or tuple follows from the outer one."""
        if isinstance(value, dict):
            rows = [
                f"{self._write_item(key, kind.parts[0])}: {self._write_item(item, kind.parts[1])}"
                for key, item in value.items()
            ]
        elif isinstance(value, tuple) and not _is_array(kind):
            rows = self.write_items(value, kind)
        else:
            assert isinstance(value, list | tuple)
            rows = [self._write_item(item, kind.item) for item in value]
        return "{" + ", ".join(rows) + "}"

    def _write_item(self, value: object, kind: Type) -> str:
        return (
            self._write_items_in_braces(value, kind)
            if kind.name in ("list", "tuple", "dict")
            else self.write_literal(value, kind)
        )

    def build_files(self, program: str, signature: Signature) -> Mapping[str, str]:
        """The files of a judgement. The driver gives the answer's function the types of the signature."""
        args = [f"bassline_a{position}" for position in range(len(signature.parameters))]
        typed = [f"{arg} {self.write_type(each.type)}" for arg, each in zip(args, signature.parameters, strict=True)]
        returns, call = signature.returns, signature.write_call(args)
        kind, body = "", call
        if returns.name != "none":
            kind, body = self.write_type(returns), f"return {call}"
        if returns.name == "tuple":
            parts = ", ".join(f"bassline_v{position}" for position in range(len(returns.parts)))
            body = f"{parts} := {call}; return {kind}{{{parts}}}"
        driver = f"func Bassline_() any {{ return func({', '.join(typed)}) {kind} {{ {body} }} }}"
        return {"program.go": program, "driver.go": f"package answer\n//line signature:1\n{driver}\n"}

    def build_test_files(self, program: str, test: str) -> Mapping[str, str]:
        """The files of a program that its test is part of: the test has functions for `go test`."""
        names = _TEST.findall(test)
        tests = ", ".join(f'{{Name: "{name}", F: {name}}}' for name in names)
        return {"program.go": f"{program}\n{test}", "driver.go": _TESTING % tests}

    def write_prompt(self, signature: Signature, text: str) -> str:
        """The doc comment and the head of the function, opened."""
        return f"package main\n\n{write_comment(text, '//')}{self.write_head(signature)}"

    def write_example(self, call: str, result: str) -> str:
        """A call and its result, as a line of the doc comment; a tuple is several results."""
        several = _TUPLE.fullmatch(result)
        return f"{call} // {several[1] if several else result}"

    def write_equality(self, parameter: Parameter, form: Json) -> str:
        """Whether a parameter has this value; the literal has its type without context."""
        kind, text = parameter.type, self.write_form(form, parameter.type)
        typed = f"({self.write_type(kind)})({text})" if not kind.parts or kind.name == "optional" else text
        return f"same(reflect.ValueOf({parameter.name}), reflect.ValueOf({typed}))"

    def write_outcome(self, case: JsonCase, returns: Type) -> str:
        """The statement that a case ends with; a tuple is returned as several results."""
        if case.raises or returns.name != "tuple":
            return super().write_outcome(case, returns)
        value = from_json(case.result, returns)
        assert isinstance(value, tuple)
        return f"return {', '.join(self.write_items(value, returns))}"

    def write_return_type(self, kind: Type) -> str:
        """What the head of a function says that it returns."""
        if kind.name == "tuple":
            return f" ({', '.join(map(self.write_type, kind.parts))})"
        return super().write_return_type(kind)


def _is_array(kind: Type) -> bool:
    """Whether the items of a tuple have one type."""
    return len(set(kind.parts)) == 1


LANGUAGE = Go
