"""The two seams to the outside of app/: the engine that decodes and the grader that judges. Tests put fakes here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from app.core.errors import BadInputError, UnavailableError
from app.core.remote import target
from decoding.models.errors import ModelError

if TYPE_CHECKING:
    from app.core.remote.engine import RemoteEngine
    from decoding.config import EngineConfig
    from decoding.engine import Engine as DecodingEngine
    from decoding.models.loaded import ModelSpec
    from evaluation.datasets import Task
    from evaluation.sandbox import Sandbox
    from evaluation.verdicts import Verdict

OnProgress = Callable[[str], None]
EngineParts = Mapping["ModelSpec | EngineConfig", int]
"""Bytes in memory: of models, by their `ModelSpec`, and of an engine's other memory, by its configuration."""
MEMORY_SHARE = 0.6  # of a device's memory, for engines; the rest is for the batches being decoded, and for grading
Engine: TypeAlias = "DecodingEngine | RemoteEngine"
EngineLoader: TypeAlias = Callable[["EngineConfig", OnProgress | None], "Engine"]
GraderFactory: TypeAlias = "Callable[[], SandboxGrader]"


def load_engine(config: EngineConfig, on_progress: OnProgress | None = None) -> Engine:
    """The real engine, or a remote one for an `openai:` target. Imports torch, so only workers call it."""
    if target.is_remote(config.target):
        from app.core.remote.engine import RemoteEngine  # noqa: PLC0415

        return RemoteEngine.load(target.parse_target(config.target))
    from decoding.engine import Engine as DecodingEngine  # noqa: PLC0415

    return DecodingEngine.load(config, on_progress)


class EngineMemory:
    """The memory for engines: `limit_bytes`, or a share of what this process has or could have on the device."""

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes

    def compute_limit(self, config: EngineConfig) -> int:
        """The bytes that all engines together may take. Raises ModelError for a device that is not here."""
        if self._limit_bytes is not None:
            return self._limit_bytes
        from decoding.models.device import measure_available_bytes  # noqa: PLC0415

        return int(MEMORY_SHARE * measure_available_bytes(config.device))

    def estimate_parts(self, config: EngineConfig) -> EngineParts | None:
        """The bytes of its models' weights; empty for a remote target.

        None if one of the models is not in the cache, or if loading will refuse it.
        """
        if target.is_remote(config.target):
            return {}
        from decoding.models.memory import estimate_bytes  # noqa: PLC0415

        try:
            sizes = {spec: estimate_bytes(spec) for spec in config.models}
        except ModelError:
            return None
        known: EngineParts = {spec: n_bytes for spec, n_bytes in sizes.items() if n_bytes is not None}
        return known if len(known) == len(sizes) else None

    def release(self) -> None:
        """Gives the memory of dropped engines back to the system."""
        from decoding.models.device import release_unused  # noqa: PLC0415

        release_unused()


def detect_sandbox(packages: tuple[str, ...], consequence: str) -> Sandbox:
    """The best sandbox of this machine, with these packages for programs to import.

    Raises BadInputError for a package that cannot be allowed, and UnavailableError, with the consequence, without a
    sandbox.
    """
    from evaluation.sandbox import PackagesError, Sandbox, SandboxUnavailableError, stage_packages  # noqa: PLC0415

    try:
        return Sandbox.detect(packages=stage_packages(packages))
    except PackagesError as error:
        raise BadInputError(f"BASSLINE_SANDBOX_PACKAGES: {error}", "sandbox_packages") from None
    except SandboxUnavailableError as error:
        raise UnavailableError(f"no sandbox on this machine, {consequence}: {error}") from None


def require_toolchain(language: str) -> str:
    """The label of a language's toolchain on this machine, as `node 24.19.0`.

    Raises BadInputError for an unknown language, and UnavailableError, with the command that installs it, where the
    toolchain is missing.
    """
    from evaluation.languages import registry  # noqa: PLC0415
    from evaluation.languages.base import ToolchainError  # noqa: PLC0415

    try:
        found = registry.load_language(language)
    except registry.UnknownLanguageError as error:
        raise BadInputError(str(error), "language") from None
    try:
        return found.toolchain.find().label
    except ToolchainError as error:
        remedy = f"run `{found.toolchain.INSTALL}`"
        raise UnavailableError(f"{found.label} cannot be judged on this machine: {error}; {remedy}") from None


def require_toolchains(languages: Iterable[str]) -> list[str]:
    """The labels of the toolchains of these languages, Python's left out. Raises as `require_toolchain`."""
    from evaluation.datasets import PYTHON  # noqa: PLC0415

    return [require_toolchain(language) for language in sorted(set(languages) - {PYTHON})]


class SandboxGrader:
    """The real grader: evaluation/'s sandbox of this machine. `archives` gives files to projects' own tests."""

    def __init__(self, packages: tuple[str, ...] = (), archives: Callable[[str], bytes | None] | None = None) -> None:
        from evaluation.grading import Grader as SandboxedGrader  # noqa: PLC0415

        self._sandbox = detect_sandbox(packages, "so no sample can be graded")
        self._grader = SandboxedGrader(self._sandbox, archives=archives)

    @property
    def sandbox(self) -> str:
        """The tier in force, the Python that programs run on, and the packages that they may import."""
        facts = self._sandbox.describe()
        packages = f", {facts['packages']}" if facts["packages"] else ""
        return f"{self._sandbox.tier_name}, Python {facts['python']}{packages}"[-200:]

    def judge_many(self, items: Sequence[tuple[str, Task]], workers: int) -> Iterator[tuple[int, Verdict]]:
        """Yields (position, verdict) of each (program, task), in order of completion."""
        return self._grader.judge_many(list(items), workers)
