"""Types, literals, drivers, prompts and oracles in C++. The driver is the precompiled driver.hpp, with an entry that
reads the arguments by their types."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import ClassVar

from evaluation.languages.base import Language, Syntax, quote_text, write_comment
from evaluation.languages.cases import Parameter, Signature
from evaluation.languages.types import Type
from evaluation.languages.values import Json

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
_INCLUDE = "#include <bits/stdc++.h>\n"
_SAME = """\
template <class T> bool same(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, double>) {
    return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
  } else if constexpr (requires { a.has_value(); }) {
    return a.has_value() == b.has_value() && (!a || same(*a, *b));
  } else if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, std::string>) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return same(x, y); });
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return (same(std::get<I>(a), std::get<I>(b)) && ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (std::is_same_v<T, std::nullopt_t>) {
    return true;
  } else {
    return a == b;
  }
}
"""


class Cpp(Language):
    """C++."""

    FENCES = ("cpp", "c++", "cc", "cxx", "c")
    SYNTAX = Syntax(
        "tree_sitter_cpp", "language",
        definitions=("function_definition", "class_specifier", "struct_specifier", "union_specifier", "enum_specifier"),
        kept=(
            *("preproc_include", "preproc_def", "preproc_function_def", "preproc_call", "preproc_ifdef", "preproc_if"),
            *("using_declaration", "alias_declaration", "type_definition", "namespace_definition", "comment"),
            *("declaration", "template_declaration", "static_assert_declaration", "concept_definition", ";"),
        ),
    )  # fmt: skip
    RESERVED = frozenset({
        "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
        "char", "char8_t", "char16_t", "char32_t", "class", "compl", "concept", "const", "consteval", "constexpr",
        "constinit", "const_cast", "continue", "co_await", "co_return", "co_yield", "decltype", "default", "delete",
        "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
        "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq",
        "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
        "requires", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct",
        "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename",
        "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
    })  # fmt: skip
    TYPES: ClassVar = {
        **{"bool": "bool", "int": "long long", "float": "double", "str": "std::string", "none": "std::nullopt_t"},
        **{"list": "std::vector<{0}>", "tuple": "std::tuple<{all}>", "dict": "std::map<{0}, {1}>"},
        "optional": "std::optional<{0}>",
    }
    NONE = "std::nullopt"
    LEAST_INT = "(-9223372036854775807LL - 1)"
    FLOATS: ClassVar = {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}
    ORACLE = f"{_INCLUDE}\n{_SAME}\n"
    THROW = "throw std::runtime_error({})"

    def write_text(self, value: str) -> str:
        """A literal of a string."""
        literal = quote_text(value, _encode_character)
        return f"std::string({literal}, {len(value.encode())})" if "\0" in value else literal

    def write_container(self, value: object, kind: Type) -> str:
        """A container with its type."""
        return f"{self.write_type(kind)}{self._write_braces(value, kind)}"

    def _write_braces(self, value: object, kind: Type) -> str:
        """A container without its type: enough inside another one that is not a tuple or an optional."""
        if isinstance(value, dict):
            key_kind, item_kind = kind.parts
            pairs = (
                (self._write_nested(key, key_kind), self._write_nested(item, item_kind)) for key, item in value.items()
            )
            items = [f"{{{key}, {item}}}" for key, item in pairs]
        elif isinstance(value, tuple):
            items = self.write_items(value, kind)
        else:
            assert isinstance(value, list)
            items = [self._write_nested(item, kind.item) for item in value]
        return f"{{{', '.join(items)}}}"

    def _write_nested(self, value: object, kind: Type) -> str:
        bare = isinstance(value, list | tuple | dict) and value
        return self._write_braces(value, kind) if bare else self.write_literal(value, kind)

    def build_files(self, program: str, signature: Signature) -> Mapping[str, str]:
        """The files of a judgement. A `main` of the answer is an ordinary function, which nobody calls."""
        names = [f"a{position}" for position in range(len(signature.parameters))]
        reads = "".join(
            f"    auto {name} = bassline::read<{self.write_type(parameter.type)}>(args);\n"
            for name, parameter in zip(names, signature.parameters, strict=True)
        )
        call = f"::{signature.name}({', '.join(names)});"
        if signature.returns.name == "none":
            call += "\n    auto result = std::nullopt;"
        else:
            call = f"{self.write_type(signature.returns)} result = {call}"
        answer = f'#define main bassline_answer_main\n#line 1\n{program}\n\n#include "entry.hpp"\n'
        return {"answer.cpp": answer, "entry.hpp": _ENTRY.format(reads=reads, call=call)}

    def build_test_files(self, program: str, test: str) -> Mapping[str, str]:
        """The files of a program that its test is part of: the test has `main`."""
        return {"answer.cpp": f"{program}\n{test}"}

    def write_prompt(self, signature: Signature, text: str) -> str:
        """The doc comment and the head of the function, opened."""
        comment = write_comment(text.replace("*/", "* /"), " *")
        return f"{_INCLUDE}\n/**\n{comment} */\n{self.write_head(signature)}"

    def write_equality(self, parameter: Parameter, form: Json) -> str:
        """Whether a parameter has this value."""
        return f"same<{self.write_type(parameter.type)}>({parameter.name}, {self.write_form(form, parameter.type)})"


def _encode_character(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode())


LANGUAGE = Cpp
