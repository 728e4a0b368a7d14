"""The web process never imports torch, and transformers never takes our kernels/ for the package of that name."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_web_worker_module_and_command_line_import_no_torch():
    code = """
import importlib, sys
import app.cli.main, app.core.broker.celery_app, app.jobs.celery_tasks, app.site.factory
for target in app.cli.main.COMMANDS.values():
    importlib.import_module(target.partition(":")[0])
for domain in app.site.factory.DOMAINS:
    for layer in ("api", "pages"):
        try:
            importlib.import_module(f"app.{domain}.{layer}")
        except ModuleNotFoundError as error:
            assert error.name.startswith(f"app.{domain}"), error
print([name for name in ("torch", "transformers") if name in sys.modules])
"""
    assert run(code) == "[]"


def test_transformers_works_and_loads_no_module_of_ours():
    code = """
import sys, transformers
from transformers.utils import import_utils
print(import_utils.is_kernels_available(), [name for name in sys.modules if name.startswith("kernels.")])
"""
    assert run(code) == "False []"


def test_kernels_package_is_free_of_code():
    import ast
    from pathlib import Path

    body = ast.parse((Path(__file__).resolve().parents[2] / "kernels" / "__init__.py").read_text()).body
    assert all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)
