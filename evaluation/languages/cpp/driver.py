"""The driver in C++: the precompiled driver.hpp, and an entry that reads the arguments by their types."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from evaluation.languages.cases import Signature
from evaluation.languages.cpp import types

HEADER = (resources.files("evaluation.languages.cpp") / "driver.hpp").read_text("utf-8")
_ENTRY = """\
#undef main
int main() {{
  bassline::serve([](bassline::Line& args, std::string& out) {{
    bassline::take(args, "[");
{reads}    {call}
    bassline::write(out, result);
  }});
}}
"""


def files(program: str, signature: Signature) -> Mapping[str, str]:
    """The files of a judgement. A `main` of the answer is an ordinary function, which nobody calls."""
    names = [f"a{position}" for position in range(len(signature.parameters))]
    reads = "".join(
        f"    auto {name} = bassline::read<{types.name(parameter.type)}>(args);\n"
        for name, parameter in zip(names, signature.parameters, strict=True)
    )
    call = f"::{signature.name}({', '.join(names)});"
    if signature.returns.kind == "none":
        call += "\n    auto result = std::nullopt;"
    else:
        call = f"{types.name(signature.returns)} result = {call}"
    answer = f'#define main bassline_answer_main\n#line 1\n{program}\n\n#include "entry.hpp"\n'
    return {"answer.cpp": answer, "entry.hpp": _ENTRY.format(reads=reads, call=call)}


def whole(program: str, test: str) -> Mapping[str, str]:
    """The files of a program that its test is part of: the test has `main`."""
    return {"answer.cpp": f"{program}\n{test}"}
