"""Locks of multiprocessing work among threads, as the kernel's own do outside of the sandbox."""

import threading
import time
from types import SimpleNamespace

import pytest

from evaluation.sandbox import Limits
from evaluation.sandbox.inside.semaphores import SemLock

LIMITS = Limits(cpu_s=3, wall_s=20.0)
SQUARES = "def check(c):\n    assert c(3) == 9\n    assert c(4) == 16\n"
PROGRAMS = {
    "ThreadPool": "from multiprocessing.pool import ThreadPool\n"
    "def f(x):\n    with ThreadPool(2) as p:\n        return p.map(lambda v: v * v, [x])[0]\n",
    "Lock": "import multiprocessing as mp\nl = mp.Lock()\ndef f(x):\n    with l:\n        return x * x\n",
    "RLock": "import multiprocessing as mp\nl = mp.RLock()\ndef f(x):\n    with l, l:\n        return x * x\n",
    "dummy": "from multiprocessing.dummy import Pool\ndef f(x):\n    return Pool(2).map(lambda v: v * v, [x])[0]\n",
    "Queue": "import multiprocessing as mp\ndef f(x):\n"
    "    q = mp.Queue()\n    q.put(x * x)\n    return q.get(timeout=5)\n",
    "Semaphore": "import multiprocessing as mp\nimport threading\ns = mp.BoundedSemaphore(2)\nseen = []\n"
    "def work(x):\n    with s:\n        seen.append(x * x)\n"
    "def f(x):\n    t = [threading.Thread(target=work, args=(x,)) for _ in range(4)]\n"
    "    [a.start() for a in t]\n    [a.join() for a in t]\n    return seen[-1]\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_right_program_that_uses_them_passes(name, sandbox):
    task = SimpleNamespace(
        prompt="", entry_point="f", test="def check(c):\n    assert c(3) == 9\n    assert c(4) == 16\n"
    )
    result = sandbox.judge(PROGRAMS[name], task, LIMITS)
    assert (result.status, result.detail) == ("passed", "")


def test_a_process_is_still_out_of_reach(sandbox):
    program = "import multiprocessing as mp\ndef f(x):\n    p = mp.Process(target=print)\n    p.start()\n    return x\n"
    task = SimpleNamespace(prompt="", entry_point="f", test="def check(c):\n    assert c(3) == 3\n")
    assert sandbox.judge(program, task, LIMITS).status == "exception"


def test_a_recursive_lock_belongs_to_its_thread():
    lock = SemLock(0, 1, 1, "name", True)
    assert lock.acquire()
    assert lock.acquire()
    assert (lock._count(), lock._is_mine(), lock._get_value(), lock._is_zero()) == (2, True, 0, True)
    other = []

    def elsewhere():
        other.append(lock.acquire(False))
        with pytest.raises(AssertionError):
            lock.release()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    lock.release()
    lock.release()
    assert other == [False]
    assert lock._get_value() == 1
    with pytest.raises(AssertionError):
        lock.release()


def test_a_semaphore_counts_waits_and_refuses_to_be_released_too_often():
    semaphore = SemLock(1, 1, 1, "name", True)
    with semaphore:
        started = time.monotonic()
        assert not semaphore.acquire(True, 0.05)
        assert time.monotonic() - started >= 0.04
        assert not semaphore.acquire(True, -1)
    with pytest.raises(ValueError, match="too many times"):
        semaphore.release()
