"""What holds for all tests: kernels run in Triton's interpreter where there is no GPU, and slow files come first."""

import contextlib
import gc
import importlib.util
import os
from collections.abc import Callable

# As in the service: both say how many threads compute and how idle ones wait, before torch and numpy ask for it.
import decoding  # noqa: F401
import evaluation  # noqa: F401

# isort: split
import pytest
import torch

# PyTorch's CPU build brings none.
_HAS_TRITON = importlib.util.find_spec("triton") is not None

# A GPU machine has only what decoding needs.
pytest_plugins = ["tests.app.world"] if importlib.util.find_spec("flask") else []
"""Fixtures of databases that are made once for all tests of a process."""

if not torch.cuda.is_available():  # Triton reads this when a kernel is defined
    os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_configure(config: pytest.Config) -> None:
    """Set up Hypothesis for a busy machine; a run without the thorough tests takes half of its usual examples."""
    if importlib.util.find_spec("hypothesis") is None:
        return
    from hypothesis import HealthCheck, settings  # noqa: PLC0415

    usual = settings.get_profile("ci" if "CI" in os.environ else "default")
    examples = usual.max_examples // 2 if config.option.markexpr else usual.max_examples
    known = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("busy machine", usual, max_examples=examples, **known)
    settings.load_profile("busy machine")


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Matrices this small only wait for each other on several threads."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _compile_native_attention_once() -> None:
    """Many tests have a cache of their own, in which the first of each process would compile it again."""
    from kernels.availability import KernelError  # noqa: PLC0415
    from kernels.native_attention import require_native  # noqa: PLC0415

    with contextlib.suppress(KernelError):
        require_native(torch.device("cpu"))


@pytest.fixture(scope="session", autouse=True)
def _patch_triton_once_for_each_launch() -> None:
    """Triton's interpreter replaces its builtins again for each device function that a kernel calls: half of a launch.

    They stay replaced until the launch ends, so a second function of the same module needs nothing.
    """
    if not _HAS_TRITON:
        return
    from triton.runtime import interpreter  # noqa: PLC0415

    if not hasattr(interpreter, "_LangPatchScope"):  # Triton 3.6 restores its builtins in another way
        return
    patch, restore = interpreter._patch_lang, interpreter._LangPatchScope.restore
    patched: set[int] = set()  # namespaces

    def patch_once(function: Callable[..., object]) -> object:
        if id(function.__globals__) in patched:
            return interpreter._LangPatchScope()
        patched.add(id(function.__globals__))
        return patch(function)

    def restore_and_forget(scope: object) -> None:
        restore(scope)
        patched.clear()

    interpreter._patch_lang, interpreter._LangPatchScope.restore = patch_once, restore_and_forget


@pytest.fixture(scope="session", autouse=True)
def _interpret_triton_faster(pytestconfig: pytest.Config) -> None:
    """Triton's interpreter makes a table of types for each value, and computes every sum of integers twice.

    The second time, for an overflow, which a GPU does not look for either; a thorough run does.
    """
    if not _HAS_TRITON:
        return
    from triton.runtime import interpreter  # noqa: PLC0415

    get_dtype, known = interpreter._get_np_dtype, {}

    def get_known_dtype(dtype: object) -> object:
        if dtype.name not in known:
            known[dtype.name] = get_dtype(dtype)
        return known[dtype.name]

    interpreter._get_np_dtype = get_known_dtype
    if pytestconfig.option.markexpr:
        interpreter.interpreter_builder.options = interpreter.InterpreterOptions(sanitize_overflow=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: a long file that begins last would leave one of two workers idle."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session", autouse=True)
def _compile_each_template_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every application compiles its templates again, which takes a fifth of a test that asks for one page."""
    if importlib.util.find_spec("flask") is None:
        return
    from flask import Flask  # noqa: PLC0415
    from jinja2 import FileSystemBytecodeCache  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("templates")
    Flask.jinja_options = {**Flask.jinja_options, "bytecode_cache": FileSystemBytecodeCache(str(folder))}


@pytest.fixture(scope="session", autouse=True)
def _compile_each_route_once() -> None:
    """Every application compiles two functions for each of its hundred routes, most of the time that it takes to make.

    A function finds the converters of its rule through `self`, so applications may share it.
    """
    if importlib.util.find_spec("werkzeug") is None:
        return
    from werkzeug.routing import Rule  # noqa: PLC0415

    compile_builder, compiled = Rule._compile_builder, {}

    def compile_once(rule: Rule, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        key = (tuple(rule._trace), repr(rule.defaults), append_unknown)
        if key not in compiled:
            compiled[key] = compile_builder(rule, append_unknown)
        return compiled[key]

    Rule._compile_builder = compile_once


@pytest.fixture(scope="session", autouse=True)
def _compile_each_statement_once() -> None:
    """Each test has an engine of its own, which would compile every statement again: a third of a test of a page.

    SQLAlchemy keeps what it compiled by dialect, so all engines get the dialect and the cache of the first that has
    connected: a dialect learns from its database which statements it understands.
    """
    if importlib.util.find_spec("sqlalchemy") is None:
        return
    from sqlalchemy import Engine, create_engine  # noqa: PLC0415

    from app.core.db import database  # noqa: PLC0415

    first: dict[str, Engine] = {}

    def create_sharing_engine(url: str, **options: object) -> Engine:
        made = create_engine(url, query_cache_size=5000, **options)
        known = first.setdefault(made.dialect.name, made)
        if getattr(known.dialect, "server_version_info", None):
            made.dialect, made._compiled_cache = known.dialect, known._compiled_cache
        else:
            first[made.dialect.name] = made
        return made

    database.create_engine = create_sharing_engine


def pytest_collection_finish() -> None:
    """Keep imported objects out of garbage collections and collect less often: a tenth of the pages' tests' time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_unconfigure() -> None:
    """Let the interpreter free everything at its end: Triton reports what it finds left as leaked."""
    gc.unfreeze()
