"""Programs in Java: where the function may be, imports, errors of the compiler, exceptions, and kinds of numbers."""

import pytest

from tests.evaluation.languages.corpus import twice

pytestmark = pytest.mark.slow
LANGUAGE = "java"
TWICE = twice(LANGUAGE)


PLACES = {
    "method alone": "import java.util.List;\nstatic long f(long a) { return 2 * a; }",
    "public class of any name": "package x.y;\npublic class Main { public long f(long a) { return 2 * a; } }",
    "nested class": "class A { static class B { private static long f(long a) { return 2 * a; } } }",
    "int where the prompt has long": "class A { static int f(int a) { return 2 * a; } }",
    "without its imports": (
        "class A { static long f(long a) { return Stream.of(a, a).collect(Collectors.summingLong(x -> x)); } }"
    ),
    "name of the system": (
        'class A { static long f(long a) { return System.getProperty("os.name").equals("Linux") ? 2 * a : 1; } }'
    ),
    "digest": (
        'class A { static long f(long a) throws Exception { MessageDigest.getInstance("MD5"); return 2 * a; } }'
    ),
}


@pytest.mark.parametrize("program", PLACES.values(), ids=PLACES)
def test_the_function_is_found_where_answers_have_it(judge, program):
    verdict = judge(program, TWICE)
    assert (verdict.status, verdict.detail) == ("passed", "")


def test_what_does_not_compile_says_where(judge):
    verdict = judge("class A {\n    static long f(long a) {\n        return b;\n    }\n}", TWICE)
    assert verdict.status == "compile_error"
    assert verdict.detail.startswith("program.java:3: error: cannot find symbol")
    assert judge("class A { }", TWICE).detail == "program.java: error: no class has a method f with 1 parameters"


def test_an_exception_costs_its_case_and_names_its_line(judge):
    verdict = judge(
        "class A {\n    static long f(long a) {\n        return new long[] {0, 2}[(int) a];\n    }\n}", TWICE
    )
    assert verdict.status == "exception"
    assert verdict.detail.startswith("java.lang.ArrayIndexOutOfBoundsException: Index 2 out of bounds")
    assert verdict.traceback == "program.java:3 in f"


def test_a_result_of_another_type_is_a_wrong_answer(judge):
    verdict = judge("class A { static double f(long a) { return 2.0 * a; } }", TWICE)
    assert (verdict.status, verdict.detail) == (
        "wrong_answer",
        "the result has another type: 0.0 is not a long; 3 of 3 cases failed",
    )
