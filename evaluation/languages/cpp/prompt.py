"""Prompts in C++, what ends an answer, its syntax, and oracles."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.languages.base import Syntax
from evaluation.languages.cases import Case, Signature
from evaluation.languages.cpp import types
from evaluation.languages.cpp.types import write_form
from evaluation.languages.types import Type

FENCES = ("cpp", "c++", "cc", "cxx", "c")
STOP = ("\n}", "\n```")
"""A function ends at the first closing brace without indentation; extraction writes the brace."""
SYNTAX = Syntax(
    "tree_sitter_cpp", "language",
    functions=("function_definition", "class_specifier", "struct_specifier", "union_specifier", "enum_specifier"),
    kept=(
        *("preproc_include", "preproc_def", "preproc_function_def", "preproc_call", "preproc_ifdef", "preproc_if"),
        *("using_declaration", "alias_declaration", "type_definition", "namespace_definition", "comment"),
        *("declaration", "template_declaration", "static_assert_declaration", "concept_definition", ";"),
    ),
)  # fmt: skip
_INCLUDE = "#include <bits/stdc++.h>\n"
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


def prompt(signature: Signature, text: str) -> str:
    """The doc comment and the head of the function, opened."""
    lines = text.replace("*/", "* /").strip("\n").split("\n")
    comment = "".join(f" * {line}".rstrip() + "\n" for line in lines)
    return f"{_INCLUDE}\n/**\n{comment} */\n{_head(signature)}"


def example(call: str, result: str) -> str:
    """A call and its result, as a line of the doc comment."""
    return f"{call} // {result}"


def oracle(signature: Signature, cases: Sequence[Case]) -> str:
    """A program that answers from the table of cases."""
    lines = [_INCLUDE, _SAME, _head(signature).rstrip("\n")]
    for case in cases:
        given = [
            f"same<{types.name(each.type)}>({each.name}, {write_form(form, each.type)})"
            for form, each in zip(case.args, signature.parameters, strict=True)
        ]
        answer = (
            f"throw std::runtime_error({write_form(case.raises, Type('str'))})"
            if case.raises
            else "return"
            if signature.returns.kind == "none"
            else f"return {write_form(case.result, signature.returns)}"
        )
        lines.append(f"  if ({' && '.join(given) or 'true'}) {answer};")
    return "\n".join([*lines, '  throw std::logic_error("no case has these arguments");', "}"]) + "\n"


def _head(signature: Signature) -> str:
    returns = "void" if signature.returns.kind == "none" else types.name(signature.returns)
    parameters = [f"{types.name(each.type)} {each.name}" for each in signature.parameters]
    return f"{returns} {signature.name}({', '.join(parameters)}) {{\n"
