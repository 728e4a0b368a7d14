"""What a test sees of the candidate's values is what it would see in one process, or the verdict says in-guest."""

import pytest

from evaluation.datasets import Task
from evaluation.grading import Grader
from evaluation.sandbox import Limits, SandboxJob

LIMITS = Limits(wall_s=60.0)


@pytest.fixture
def judge(sandbox):
    def judge_one(program, test, prompt="def f(x):\n"):
        body = "".join(f"    {line}\n" for line in test.splitlines())
        task = Task("t", prompt, "f", f"def check(candidate):\n{body}", "")
        verdict = Grader(sandbox, LIMITS).judge(program, task)
        return verdict.status, verdict.trust

    return judge_one


PASSED, WRONG = ("passed", "proxy"), ("wrong_answer", "proxy")


@pytest.mark.parametrize(
    ("program", "test", "verdict"),
    [
        # Arguments are the test's own objects.
        ("def f(x):\n    x[0].append(2)\n", "a = [[1]]\ncandidate(a)\nassert a == [[1, 2]]", PASSED),
        ("def f(x):\n    x[0].append(2)\n", "a = [[1]]\ncandidate(a)\nassert a == [[1]]", WRONG),
        ("def f(x):\n    x.clear(); return []\n", "a = {1: 2}\nassert candidate(a) == [] and a == {1: 2}", WRONG),
        ("def f(x):\n    x.pop()\n    raise ValueError\n",
         "a = [1]\ntry:\n    candidate(a)\nexcept ValueError:\n    pass\nassert a == []", PASSED),
        ("def f(x):\n    x.append(object())\n    return x\n", "assert candidate([1]) == [1]", WRONG),
        ("def f(x):\n    x.append(object())\n    return x[0]\n", "assert candidate([1]) == 1", PASSED),
        ("kept = []\ndef f(x):\n    kept.append(x)\n    kept[0].append(0)\n",
         "a = []\ncandidate(a)\ncandidate([])\nassert a == [0, 0]", PASSED),
        # The test's changes reach the program.
        ("kept = []\ndef f(x):\n    kept.append(x)\n    return kept[0]\n",
         "a = [1]\ncandidate(a)\na.append(2)\nassert candidate(0) == [1, 2]", PASSED),
        ("r = [1]\ndef f(x):\n    return r\n", "candidate(1).append(2)\nassert candidate(1) == [1, 2]", PASSED),
        ("r = [1]\ndef f(x):\n    return r\n", "a = candidate(1)\na.append(2)\nassert candidate(1) == [1]", WRONG),
        ("acc = []\ndef f(x):\n    acc.append(x)\n    return acc\n",
         "a = candidate(1)\nb = candidate(2)\nassert (a, b) == ([1], [1, 2])", WRONG),
        ("cache = {}\ndef f(x):\n    return cache.setdefault(x, [x])\n",
         "a = candidate(1)\ncandidate(1).append(2)\nassert a == [1, 2]", PASSED),
        ("def f(x):\n    return [x]\n",
         "all_of_them = [candidate([i]) for i in range(3000)]\nassert all_of_them[2999] == [[2999]]", PASSED),
        # One object under two names.
        ("def f(n):\n    return [[0] * n] * n\n", "g = candidate(2)\ng[0][0] = 1\nassert g == [[1, 0], [0, 0]]", WRONG),
        ("def f(n):\n    return [[0] * n for _ in range(n)]\n",
         "g = candidate(2)\ng[0][0] = 1\nassert g == [[1, 0], [0, 0]]", PASSED),
        ("def f(x):\n    x.append(x)\n    return x\n", "a = candidate([1])\nassert a[1][1][1][0] == 1", PASSED),
        # Iterators stay with the program, which is asked for each item.
        ("def f(n):\n    while True:\n        yield n\n        n += 1\n",
         "from itertools import islice\ng = candidate(3)\nassert (next(g), list(islice(g, 2))) == (3, [4, 5])",
         PASSED),
        ("def f(n):\n    yield 1\n    while True: pass\n", "assert next(candidate(1)) == 1", PASSED),
        ("def f(n):\n    yield 1\n    raise KeyError(n)\n",
         "g = candidate(5)\nnext(g)\ntry:\n    next(g)\n    assert 0\nexcept KeyError as e:\n    assert e.args == (5,)",
         PASSED),
        ("def f(n):\n    return [iter([1]), zip('ab', [1, 2])]\n",
         "a, b = candidate(1)\nassert (list(a), dict(b), list(b)) == ([1], {'a': 1, 'b': 2}, [])", PASSED),
        ("def f(g):\n    return sum(g) if hasattr(g, '__next__') else iter(g)\n",
         "g = candidate([1, 2, 3])\nassert next(g) == 1 and candidate(g) == 5", PASSED),
        ("def f(x):\n    yield x\n    x.append(1)\n", "a = []\nassert len([*candidate(a)]) == 1\nassert a == [1]",
         PASSED),
        ("def f(n):\n    yield from range(n)\n", "assert candidate(2) == [0, 1]", WRONG),
        # Exceptions.
        ("class Bad(Exception):\n    def __init__(self, a, b):\n        self.b = b\ndef f(x):\n    raise Bad(x, 2)\n",
         "try:\n    candidate(2)\nexcept ValueError:\n    pass", ("exception", "proxy")),
        ("def f(x):\n    open('/no/such/file')\n",
         "try:\n    candidate(2)\nexcept OSError as e:\n    assert e.filename == '/no/such/file'", PASSED),
        ("class Mine(KeyError):\n    def __str__(self):\n        return 'mine'\ndef f(x):\n    raise Mine(1)\n",
         "try:\n    candidate(2)\nexcept LookupError as e:\n    assert 'mine' in str(e)", PASSED),
        ("class JSONDecodeError(Exception):\n    pass\ndef f(x):\n    raise JSONDecodeError\n",
         "from json import JSONDecodeError\ntry:\n    candidate(2)\nexcept JSONDecodeError:\n    pass",
         ("exception", "proxy")),
        ("def f(x):\n    raise ValueError(object())\n",
         "try:\n    candidate(2)\nexcept ValueError as e:\n    assert 'object' in str(e)", PASSED),
        # Values of other types, large and deep ones.
        ("from decimal import Decimal\ndef f(x):\n    return x + Decimal('0.1')\n",
         "from decimal import Decimal\nassert candidate(Decimal('0.2')) == Decimal('0.3')", PASSED),
        ("from fractions import Fraction\ndef f(x):\n    return Fraction(x, 2)\n", "assert candidate(3) == 1.5",
         PASSED),
        ("import math\ndef f(x):\n    return math.factorial(x)\n",
         "import math\nassert candidate(5000) == math.factorial(5000)", PASSED),
        ("def f(x):\n    return {k: [v] for k, v in enumerate(x)}\n",
         "assert candidate(['a'] * 60000)[59999] == ['a']", PASSED),
    ],
)  # fmt: skip
def test_the_values_of_the_candidate_are_seen_as_in_one_process(judge, program, test, verdict):
    assert judge(program, test) == verdict


def test_an_exception_of_the_prompt_keeps_its_class_arguments_and_attributes(judge):
    prompt = (
        "class Bad(Exception):\n    def __init__(self, code):\n        super().__init__('bad', code)\n"
        "        self.reason = code\n    def __str__(self):\n        return f'<{self.reason}>'\n\ndef f(x):\n"
    )
    test = "try:\n    candidate(3)\nexcept Bad as e:\n    assert (str(e), e.args) == ('<3>', ('bad', 3))"
    assert judge(f"{prompt}    raise Bad(x)\n", test, prompt) == PASSED
    assert judge(f"{prompt}    raise Bad(4)\n", test, prompt) == WRONG


@pytest.mark.parametrize(
    "test",
    [
        "assert candidate(iter([1, 2])) == 3",
        "add = lambda values: sum(values)\nargument = [add]\nassert candidate(argument) == 3",
        "import math\nassert candidate(math.fsum) == 3",
        "assert candidate([1, 2, *[0] * 2_000_000]) == 3",
        "a = [1, 2]\ncandidate(a)\na.append(iter([]))\nassert candidate(a) == 3",
    ],
    ids=["iterator", "lambda in a variable", "library function", "too large", "put in later"],
)
def test_what_the_test_passes_and_no_message_can_carry_is_never_charged_to_the_program(judge, test):
    program = (
        "def f(x):\n    if callable(x): return int(x([1, 2]))\n    if isinstance(x, list) and callable(x[0]):\n"
        "        return x[0]([1, 2])\n    return sum(v for v in x if isinstance(v, int))\n"
    )
    assert judge(program, test) == ("passed", "in-guest")
    status, trust = judge("def f(x):\n    return 0\n", test)
    assert (status, trust) == ("wrong_answer", "in-guest")


def test_a_program_cannot_bring_its_own_value_into_the_guest_judgement(judge):
    """What cannot cross is an obstacle where the test hands it over, and a wrong answer where the program does."""
    program = "class Any:\n    __eq__ = lambda s, o: True\ndef f(x):\n    return Any()\n"
    assert judge(program, "assert candidate(1) == 5") == WRONG


@pytest.mark.parametrize(
    "reply",
    [
        {"ret": 3, "changes": [[0, {"dict": []}]]},
        {"ret": 3, "changes": [[9, []]]},
        {"ret": 3, "changes": [[0, {"ref": 0}]]},
        {"ret": 3, "changes": 5},
        {"ret": 3, "unused": 5},
        {"ret": {"ref": 9}},
        {"end": 3},
        {"exc": ["X", "ValueError", "", ""], "classes": 5, "args": {"module": "os"}},
        {"exc": ["X", "ValueError", "", ""], "state": {"list": None}},
    ],
    ids=str,
)
def test_a_reply_that_no_honest_guest_writes_is_forged(judge, reply):
    program = (
        "import json, os, struct\ndef f(x):\n"
        f"    body = json.dumps({{'id': 1, **{reply!r}}}).encode()\n"
        "    os.write(4, struct.pack('>I', len(body)) + body)\n    os._exit(0)\n"
    )
    assert judge(program, "a = [1]\nassert candidate(a) == 3")[0] == "forged"


@pytest.mark.parametrize(
    "name",
    [
        "evaluation.sandbox.inside.checker:_Ended",
        "builtins:eval",
        "builtins:StopIteration",
        "os:_exit",
        "candidate:Proxy",
    ],
)
def test_an_exception_is_made_of_known_exception_classes_only(judge, name):
    module, _, kind = name.partition(":")
    reply = {"id": 1, "exc": ["X", "no", "text", ""], "classes": [[module, kind]], "args": [1], "state": None}
    program = (
        "import json, os, struct\ndef f(x):\n"
        f"    body = json.dumps({reply!r}).encode()\n"
        "    os.write(4, struct.pack('>I', len(body)) + body)\n    os._exit(0)\n"
    )
    assert judge(program, "assert all(map(candidate, [1, 2]))") == ("exception", "proxy")


def test_a_text_of_the_candidate_is_never_executed_beside_the_test(judge, sandbox):
    text = "__import__('os').write(5, b'x' * 99) or 6"
    program = f"def f(x):\n    return {text!r}\n"
    assert judge(program, "assert eval(candidate('2*3')) == 6")[1] == "in-guest"
    overlooked = "def check(candidate):\n    assert eval(candidate('2*3')) == 6\n"
    assert sandbox.run(SandboxJob(program, "f", "", overlooked), LIMITS).status == "obstacle"


def test_a_test_in_the_guest_is_a_text_of_its_own(judge):
    """A future import stands first there, and names of the program do not replace what runs the test."""
    program = "def compile(x):\n    return x\nexec = globals = None\ndef f(g):\n    return compile(g(2))\n"
    test = "sq = lambda v: v * v\nassert candidate(sq) == 4"
    assert judge(program, test) == ("passed", "in-guest")


def test_standard_output_is_seen_by_a_test_that_reads_it(judge):
    test = (
        "import io\nfrom contextlib import redirect_stdout\nout = io.StringIO()\n"
        "with redirect_stdout(out):\n    candidate('hi')\nassert out.getvalue() == 'hi\\n'"
    )
    assert judge("def f(x):\n    print(x)\n", test) == ("passed", "in-guest")
    assert judge("def f(x):\n    pass\n", test) == ("wrong_answer", "in-guest")
