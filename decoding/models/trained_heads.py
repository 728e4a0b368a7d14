"""The trained drafters of this machine: one head for each target, beside the models in the cache.

A head belongs to the files of its target, by their hash: hidden states of any other model mean nothing to it. What was
measured while it was trained is stored beside it. Imports no torch until a head is loaded.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from decoding.models import registry
from decoding.models.cache_folders import CONFIG, WEIGHTS, make_lock, remove_folders
from decoding.models.errors import ModelError
from kernels.cache import cache_folder

if TYPE_CHECKING:
    from decoding.models.dflash import DFlash
    from decoding.models.loaded import LoadedModel

RECORD = "bassline.json"
"""The file of a head's folder that says where the head comes from."""


@dataclass(frozen=True, slots=True)
class HeadRecord:
    """The facts about a head: its target, its source, and how good it was on held-out text."""

    target: str
    target_sha256: str
    sha256: str
    source: str  # `trained`, or the reference it was imported from
    created_at: str
    n_parameters: int
    n_bytes: int
    n_drafted: int
    taps: list[int]
    hours: float = 0.0
    # share of held-out blocks whose top token it had right, by position
    match: list[float] = field(default_factory=list)
    curve: list[dict[str, Any]] = field(default_factory=list)  # the evaluations of its training
    # tokens per second of whole answers by drafter and batch
    speeds: list[dict[str, Any]] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)  # how much text of which kind it was trained on


@dataclass(frozen=True, slots=True)
class LoadedHead:
    """A head on the device of its target, in its precision, ready to run; `embedding` is the target's module."""

    head: DFlash
    embedding: Any
    record: HeadRecord


def get_heads_folder() -> Path:
    """Return the folder of all heads."""
    return cache_folder() / "drafters"


def get_head_folder(target: str) -> Path:
    """Return the folder of a target's head, which need not exist. Raises UnknownModelError."""
    place = get_heads_folder() / registry.resolve(target).slug
    old = _get_replaced_path(place)  # a process killed between the two renames of `store` leaves the old head there
    return old if old.exists() and not place.exists() else place


def find(target: str) -> HeadRecord | None:
    """Return the record of a target's head; None if it has none. Raises ModelError if its record is damaged."""
    return _read(get_head_folder(target))


def list_heads() -> list[HeadRecord]:
    """Return all heads of this machine, in the order of their folders. Those with damaged records are left out."""
    records = []
    for path in sorted(get_heads_folder().glob(f"*/{RECORD}")):
        if path.parent.name.startswith("."):  # it is being stored
            continue
        try:
            records.append(_read(path.parent))
        except ModelError:
            continue
    return [record for record in records if record is not None]


def describe_head(
    target: LoadedModel, head: DFlash, source: str, sha256: str, n_bytes: int, **facts: Any
) -> HeadRecord:
    """Return the record of a new head; `facts` are the fields that depend on its source."""
    return HeadRecord(
        target=target.ref,
        target_sha256=target.sha256,
        sha256=sha256,
        source=source,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        n_parameters=sum(parameter.numel() for parameter in head.parameters()),
        n_bytes=n_bytes,
        n_drafted=head.shape.n_drafted,
        taps=list(head.shape.taps),
        **facts,
    )


def store(target: LoadedModel, head: DFlash, describe: Callable[[DFlash, str, int], HeadRecord]) -> HeadRecord:
    """Replace the head of a target by one that passes every check, whole or not at all, and return its record.

    `describe` gets the head as it was written and read again, the hash and the bytes of its weights. It may measure it:
    whatever it raises leaves the old head. Raises ModelError for a head with which decoding would be wrong.
    """
    from decoding.models import dflash_files  # noqa: PLC0415

    place = get_heads_folder() / registry.resolve(target.ref).slug
    config = target.model.config.get_text_config()
    with _make_lock(place, "-new"), _make_folder_beside(place, "new") as new:  # measuring takes minutes
        dflash_files.write(head, new, config)
        weights = new / WEIGHTS
        record = describe(dflash_files.read(new, config), _hash_file(weights), weights.stat().st_size)
        write_record(new, record)
        with _make_lock(place):
            _swap(new, place)
    return record


def export(target: str) -> tuple[HeadRecord, dict[str, bytes]]:
    """Return the record of a target's head and its other files by name, to send it to another machine.

    Raises ModelError if it has none, or files other than its record says.
    """
    record = find(target)
    if record is None:
        raise ModelError(f"{target} has no trained drafter here: `bassline drafter train --target {target}` makes one.")
    files = {name: _read_content(get_head_folder(target) / name) for name in (CONFIG, WEIGHTS)}
    _require_hash(files[WEIGHTS], record)
    return record, files


def install(record: HeadRecord, files: Mapping[str, bytes]) -> None:
    """Replace the head of `record.target` by one from another machine, whole or not at all.

    Raises ModelError if the weights have another hash than the record. All other checks are made when it is loaded.
    """
    _require_hash(files[WEIGHTS], record)
    place = get_heads_folder() / registry.resolve(record.target).slug
    with _make_lock(place), _make_folder_beside(place, "fetched") as new:
        new.mkdir(parents=True)
        for name in (CONFIG, WEIGHTS):
            (new / name).write_bytes(files[name])
        write_record(new, record)
        _swap(new, place)


def remove(target: str) -> bool:
    """Remove this machine's head of a target; return whether there was one. Engines that have it in memory keep it.

    Raises ModelError where the target is not known, or the head cannot be removed.
    """
    place = get_head_folder(target)
    return remove_folders(_make_lock(place), place)


def _make_lock(place: Path, suffix: str = "") -> FileLock:
    """The lock of a head's folder: workers that share a cache fetch the same head at the same time."""
    return make_lock(cache_folder(), f"drafter-{place.name}{suffix}")


@contextmanager
def _make_folder_beside(place: Path, purpose: str) -> Iterator[Path]:
    """Yield the path of a folder beside `place` that does not exist, and remove whatever is left there at the end."""
    new = place.with_name(f".{place.name}.{purpose}")
    shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
    try:
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _swap(new: Path, place: Path) -> None:
    """Let the folder `new` take the place of a head's folder."""
    old = _get_replaced_path(place)
    if old.exists() and not place.exists():  # a process was killed between the two renames below
        old.rename(place)
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    new.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def write_record(folder: Path, record: HeadRecord) -> None:
    """Write the record of the head in a folder."""
    (folder / RECORD).write_text(to_json(record), encoding="utf-8")


def to_json(record: HeadRecord) -> str:
    """Return the text of a record's file."""
    return json.dumps(asdict(record), indent=2) + "\n"


def from_json(text: str) -> HeadRecord:
    """Return the record of a text. Raises ValueError, TypeError or RecursionError for any other text."""
    return HeadRecord(**json.loads(text))


def load(target: LoadedModel) -> LoadedHead:
    """Return the head of a loaded target. Raises ModelError with the remedy if it has none that fits."""
    record = verify_head(target)
    from decoding.models import dflash_files  # noqa: PLC0415

    head = dflash_files.read(get_head_folder(target.ref), target.model.config.get_text_config())
    return prepare_head(head, target, record)


def verify_head(target: LoadedModel) -> HeadRecord:
    """Return the record of a loaded target's head, whose files are those that were stored for these weights.

    Raises ModelError with the remedy if there is none.
    """
    record = find(target.ref)
    if record is None:
        raise ModelError(
            f"{target.name} has no trained drafter: make one with `bassline drafter train --target {target.ref}`."
        )
    if record.target_sha256 != target.sha256:
        raise ModelError(
            f"the trained drafter of {target.name} was made for other weights of it"
            f" ({record.target_sha256[:12]}, not {target.sha256[:12]}): train it again."
        )
    if _hash_file(get_head_folder(target.ref) / WEIGHTS) != record.sha256:
        raise ModelError(f"the trained drafter of {target.name} has changed on disk: train or import it again.")
    return record


def prepare_head(head: DFlash, target: LoadedModel, record: HeadRecord) -> LoadedHead:
    """Return a head made ready to run beside its target: on its device, in its precision, its weights prepacked.

    Raises ModelError for a head with which decoding would be wrong, such as one with tokens that the tokenizer lacks.
    """
    from decoding.models.dflash import require_sound  # noqa: PLC0415
    from decoding.models.fusion import fuse  # noqa: PLC0415
    from decoding.models.packing import prepack  # noqa: PLC0415

    head.to(device=target.device, dtype=target.dtype)
    require_sound(head, target.vocab_size, f"the tokenizer of {target.name}")
    fuse(head)
    prepack(head)
    head.collect_layers()
    return LoadedHead(head, target.model.get_input_embeddings(), record)


def _get_replaced_path(place: Path) -> Path:
    """Where a head lies while another one takes its folder."""
    return place.with_name(f".{place.name}.old")


def _read(folder: Path) -> HeadRecord | None:
    try:
        return from_json((folder / RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ModelError(f"the record of a trained drafter, {folder / RECORD}, is damaged: train it again.") from error


def _require_hash(weights: bytes, record: HeadRecord) -> None:
    if hashlib.sha256(weights).hexdigest() != record.sha256:
        raise ModelError(
            f"the trained drafter of {record.target} has changed on its way or on disk: train or import it again."
        )


def _read_content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"a trained drafter has no {path.name} in {path.parent}: train it again.") from error


def _hash_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"a trained drafter has no {path.name} in {path.parent}: train it again.") from error
