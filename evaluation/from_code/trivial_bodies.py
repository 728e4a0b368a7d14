"""Bodies without content, none of which may pass the test of a task."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from evaluation.from_code.mutants import FunctionNode


def list_trivial_variants(function: FunctionNode, raised: Sequence[str], is_generator: bool) -> list[str]:
    """The function with bodies that have no content: nothing, a constant, one of its arguments, an exception.

    `raised` are the exceptions that the original was seen to raise.
    """
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    every += [argument for argument in (function.args.vararg, function.args.kwarg) if argument]
    constants = ("None", '""', "0", "1", "[]", "{}", "()", "True", "False", 'b""', "set()")
    bodies = ["pass", *(f"return {text}" for text in (*constants, *(argument.arg for argument in every)))]
    bodies += [f"raise {name}" for name in dict.fromkeys(("Exception", "NotImplementedError", *raised))]
    if is_generator:
        bodies += ["yield from ()", *(f"yield from {argument.arg}" for argument in every)]
    found = []
    for body in bodies:
        if isinstance(function, ast.AsyncFunctionDef) and body.startswith("yield from"):
            continue
        fields = {**dict(ast.iter_fields(function)), "body": ast.parse(f"def f():\n {body}").body[0].body}  # type: ignore[attr-defined]
        found.append(ast.unparse(ast.fix_missing_locations(ast.copy_location(type(function)(**fields), function))))
    return list(dict.fromkeys(found))
