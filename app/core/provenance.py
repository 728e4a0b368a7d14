"""The provenance of figures, as far as this process knows: versions, machine, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGES = ("bassline", "torch", "transformers", "triton", "celery", "sqlalchemy")


@cache
def get_process_provenance() -> dict[str, str | int | None]:
    """Package versions, Python, host platform, CPU name and count, and git commit (None outside a checkout)."""
    versions: dict[str, str | int | None] = {f"{name}_version": get_version(name) for name in PACKAGES}
    return {
        **versions,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _read_cpu_name(),
        "cpu_count": os.cpu_count(),
        "git_commit": _read_git_commit(),
    }


def describe_machine() -> dict[str, str | int | None]:
    """Identifies this machine for timings. The host name is left out: each container has a new one."""
    return {key: get_process_provenance()[key] for key in ("cpu", "cpu_count")}


def get_version(package: str) -> str | None:
    """The installed version, None if there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _read_cpu_name() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


def _read_git_commit() -> str | None:
    try:
        found = subprocess.run(
            # The second revision exists only if the commit holds this file: a wheel may lie in another project's tree.
            ["git", "rev-parse", "HEAD", f"HEAD:./{Path(__file__).name}"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.split()[0] if found.returncode == 0 else None
