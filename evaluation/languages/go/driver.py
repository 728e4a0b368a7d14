"""The driver in Go: a function beside the answer that reads arguments, calls it and writes its result."""

from __future__ import annotations

import re
from collections.abc import Mapping

from evaluation.languages.cases import Signature
from evaluation.languages.go import types
from evaluation.languages.types import Type

_TEST = re.compile(r"^func (Test\w*)\(\w+ \*testing\.T\)", re.MULTILINE)
_TESTING = """\
package answer
import (
	bassline_testing "testing"
	bassline_wire "bassline/wire"
)
func Bassline_(*bassline_wire.Reader, *bassline_wire.Writer) {}
func init() {
	all := func(_, _ string) (bool, error) { return true, nil }
	bassline_testing.Main(all, []bassline_testing.InternalTest{%s}, nil, nil)
}
"""
"""What `go test` does, before the driver reads a case: `Main` exits with 0 if every test passed."""
_SIMPLE = {"bool": "Bool", "int": "Int", "float": "Float", "str": "Str"}
_GENERIC = {"list": "List", "dict": "Dict", "optional": "Optional"}


def files(program: str, signature: Signature) -> Mapping[str, str]:
    """The files of a judgement."""
    args = [f"bassline_a{position}" for position in range(len(signature.parameters))]
    steps = []
    for each, arg in zip(signature.parameters, args, strict=True):
        steps += ["bassline_r.Skip()", f"{arg} := {_codec(each.type)}.Read(bassline_r)"]
    returns = signature.returns
    call = f"{signature.name}({', '.join(args)})"
    results = [f"bassline_v{position}" for position in range(len(returns.parts) if returns.kind == "tuple" else 1)]
    if returns.kind == "none":
        steps += [call, 'bassline_w.Put("null")']
    elif returns.kind == "tuple":
        steps += [f"{', '.join(results)} := {call}", *_written(returns.parts, results)]
    else:
        steps += [f"{results[0]} := {call}", f"{_codec(returns)}.Write(bassline_w, {results[0]})"]
    lines = [
        "package answer",
        'import bassline_wire "bassline/wire"',
        "//line signature:1",
        "func Bassline_(bassline_r *bassline_wire.Reader, bassline_w *bassline_wire.Writer) {",
        *steps,
        "}",
    ]
    return {"program.go": program, "driver.go": "\n".join(lines) + "\n"}


def whole(program: str, test: str) -> Mapping[str, str]:
    """The files of a program that its test is part of: the test has functions for `go test`."""
    names = _TEST.findall(test)
    tests = ", ".join(f'{{Name: "{name}", F: {name}}}' for name in names)
    return {"program.go": f"{program}\n{test}", "driver.go": _TESTING % tests}


def _codec(kind: Type) -> str:
    if kind.kind in _SIMPLE:
        return f"bassline_wire.{_SIMPLE[kind.kind]}"
    if kind.kind in _GENERIC:
        return f"bassline_wire.{_GENERIC[kind.kind]}({', '.join(map(_codec, kind.parts))})"
    name = types.name(kind)
    is_array = types.is_array(kind)
    fields = [f"v[{position}]" if is_array else f"v.V{position}" for position in range(len(kind.parts))]
    read = "; ".join(
        f"r.Skip(); {field} = {_codec(part)}.Read(r)" for field, part in zip(fields, kind.parts, strict=True)
    )
    written = "; ".join(_written(kind.parts, fields, "w"))
    return (
        f"bassline_wire.Codec[{name}]{{func(r *bassline_wire.Reader) (v {name}) {{ {read}; r.Skip(); return }}, "
        f"func(w *bassline_wire.Writer, v {name}) {{ {written} }}}}"
    )


def _written(kinds: tuple[Type, ...], values: list[str], writer: str = "bassline_w") -> list[str]:
    """The steps that write values as one list."""
    steps = []
    for position, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        steps += [f"{writer}.Put({'`,`' if position else '`[`'})", f"{_codec(kind)}.Write({writer}, {value})"]
    return [*steps, f"{writer}.Put(`]`)"]
