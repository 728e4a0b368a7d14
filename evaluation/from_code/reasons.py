"""Why a function does not become a task, and what would help."""

from __future__ import annotations

_STEADY = "tests that do not depend on time, order or chance"
_ASSERTING = "tests that assert more of what it does"
_VARIED = "tests that call it in more ways, so that its results differ"
_PYTEST = 'tests that pytest runs: --tests "python -m pytest -q"'
_BY_TESTS = f"{_PYTEST}, with --judge auto"
REMEDIES = (
    # by its source
    ("is a declaration of an overload", "nothing: the implementation can become a task"),
    ("has no body of its own", "nothing: there is nothing to write"),
    ("has its body on the line of its signature or docstring", "a body on lines of its own"),
    ("is a hash, which is right with any number that equal objects share", "nothing: any such number is right"),
    ("has fewer than 2 lines", "nothing: it is too short to ask for"),
    ("has more than 80 lines", "shorter functions: split it"),
    ("needs a prompt of more than", "a shorter signature and docstring; with --context file, --context function"),
    ("needs modules of more than", f"a module that imports less, or {_BY_TESTS}"),
    ("has the same body as another function", "nothing: the other one is the task"),
    ("has nearly the same body as another function", "nothing: the other one is the task"),
    ("becomes a task that no dataset takes", "a fault of Bassline: please report its detail (--names)"),
    ("has fewer than 3 mutants", "nothing: there is too little in it that could be wrong"),
    ("has fewer than 5 mutants", "nothing: there is too little in it that could be wrong"),
    # by recorded calls
    ("was not called before", "tests that pass to their end and call it"),
    ("was not called with data before", "tests that pass to their end and call it with data"),
    ("was not called with data", f"tests that call it with data alone, or {_BY_TESTS}"),
    ("was not called", "tests that call it, or --doctests"),
    ("returns values that are not data", _BY_TESTS),
    ("has arguments or results that cannot be rebuilt from data", _BY_TESTS),
    ("is called with values that are nested too deep", f"tests with smaller values, or {_BY_TESTS}"),
    ("has an f-string that Python before 3.12 cannot write", "no invisible character within its braces"),
    ("has code that is nested too deep to change", "a shorter expression, split into several"),
    ("has a decorator that may change what its callers see", _BY_TESTS),
    ("has fewer than 2 calls that are short enough", f"tests that call it with smaller values, or {_BY_TESTS}"),
    ("has fewer than 2 calls", f"tests that call it with two kinds of data or more, or {_BY_TESTS}"),
    ("returns and changes nothing in every call", f"results or changed arguments, or {_BY_TESTS}"),
    ("does the same in every call", _VARIED),
    ("cannot do in the sandbox what it did in its tests", "tests without files, network and installed programs"),
    ("does not repeat in the sandbox", _STEADY),
    ("has the present date or an address in every call", _STEADY),
    ("does not pass its own test", _STEADY),
    ("has a test that would have to run beside the program", "results of plain data"),
    ("has a test that a body without content would pass", _VARIED),
    ("needs more than 1.0 CPU seconds", "tests that call it with less work"),
    # by the project's tests
    ("cannot be judged by the project's tests", "what the detail of each function says: --names"),
    ("is not called by a test that pytest ran", _PYTEST),
    (
        "is called by tests that do not pass in the sandbox",
        "tests without network, subprocesses and files beside tmp_path; --env for variables",
    ),
    ("has tests that miss ", _ASSERTING),
    ("has tests that a body without content passes", _ASSERTING),
    ("has tests that do not pass each time", _STEADY),
    ("has tests that need more than", "faster tests that call it"),
)
"""Each reason by its beginning, the longer of two before the shorter, with what would make a task of the function."""


def find_remedy(reason: str) -> str:
    """What would make tasks of the functions with this reason, "" for one that is not known."""
    return next((remedy for start, remedy in REMEDIES if reason.startswith(start)), "")


class ExcludedError(Exception):
    """The function does not become a task. The message is the reason in a few words; equal reasons are counted
    together.

    `detail` adds what differs from function to function.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


class SandboxFaultError(RuntimeError):
    """Faults of the sandbox that lasted: nothing can be said about the function, and the work has to stop."""


class StoppedError(RuntimeError):
    """The work was stopped: what a job said does not count."""


class ProjectError(ValueError):
    """A project that cannot be used at all; one sentence that names the fault and the remedy."""
