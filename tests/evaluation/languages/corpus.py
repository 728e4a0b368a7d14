"""The two tasks that hostile programs are judged by, in any language."""

from evaluation.datasets import Task
from evaluation.languages.cases import read_cases, read_signature
from evaluation.sandbox import Limits

# Far above what a verdict takes on a busy machine; SHORT is for programs that must be stopped.
LIMITS, SHORT = Limits(cpu_s=10, wall_s=60.0), Limits(cpu_s=1, wall_s=2.0)


def task_of(language, name, parameters, returns, cases):
    """A task of one function; the cases in JSON form."""
    rows = [{"name": each, "type": kind} for each, kind in parameters.items()]
    signature = read_signature({"name": name, "parameters": rows, "returns": returns})
    return Task("t/0", "", name, "", "", language=language, signature=signature, cases=read_cases(cases, signature))


def secret(language):
    """No program can know the results, so none can pass by answering."""
    results = ("7046029254386353131", "1181783497276652981", "2862933555777941757")
    cases = [{"args": [str(position)], "result": result} for position, result in enumerate(results)]
    return task_of(language, "f", {"a": "int"}, "int", cases)


def one(language):
    """The answer is 1, which a program gives that has reached what it should not."""
    return task_of(language, "f", {"a": "int"}, "int", [{"args": ["0"], "result": "1"}])


def twice(language, n=3):
    """Twice a number, with `n` cases."""
    return task_of(language, "f", {"a": "int"}, "int", [{"args": [str(a)], "result": str(2 * a)} for a in range(n)])
