"""`bassline.json`, the record of a ready model: its facts and the hashes of its files. No torch here."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from decoding.models.errors import ModelError
from decoding.models.progress import Meter, OnProgress, count_folder_bytes
from decoding.models.sources import MODEL_FILE_SUFFIXES, hash_file

FILENAME = "bassline.json"
FORMAT = 1
_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The state of a file when it was recorded."""

    bytes: int
    modified_ns: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A ready model."""

    ref: str
    name: str
    folder: Path  # holds its files
    # of the GGUF file if the weights were converted from one, else of the safetensors file, or of the list of hashes if
    # there are several files; figures name the model by it
    sha256: str
    source: str
    licence: str | None
    dtype: str  # in which the weights are stored
    n_parameters: int
    files: dict[str, FileRecord]
    versions: dict[str, str]

    @property
    def bytes(self) -> int:
        """The bytes of all files on disk."""
        return sum(record.bytes for record in self.files.values())

    def is_intact(self, *, times: bool) -> bool:
        """Whether all files have their recorded sizes and, with `times`, modification times. Hashes nothing."""
        for name, record in self.files.items():
            try:
                stat = (self.folder / name).stat()
            except OSError:
                return False
            if stat.st_size != record.bytes or (times and stat.st_mtime_ns != record.modified_ns):
                return False
        return True


def read(record_folder: Path) -> ModelInfo | None:
    """Return the record in `record_folder`, None if there is none or it has another format version."""
    try:
        data = json.loads((record_folder / FILENAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if data.pop("format", None) != FORMAT:
        return None
    folder = data.pop("folder", None)
    files = {name: FileRecord(**record) for name, record in data.pop("files").items()}
    return ModelInfo(folder=Path(folder) if folder else record_folder, files=files, **data)


def write(info: ModelInfo, record_folder: Path) -> None:
    """Write the record. It names the model's folder only if that is not `record_folder`, as caches may move."""
    data = {"format": FORMAT, **asdict(info)}
    if info.folder == record_folder:
        del data["folder"]
    else:
        data["folder"] = str(info.folder)
    (record_folder / FILENAME).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def record_files(folder: Path, name: str, on_progress: OnProgress | None) -> dict[str, FileRecord]:
    """Hash the model files directly in `folder`; return their records by name."""
    paths = sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and path.suffix in MODEL_FILE_SUFFIXES and path.name != FILENAME
    )
    meter = Meter("check", f"{name}: hashing the files", count_folder_bytes(folder), on_progress)
    records = {}
    for path in paths:
        stat = path.stat()
        records[path.name] = FileRecord(stat.st_size, stat.st_mtime_ns, hash_file(path, meter))
    return records


def is_same(path: Path, record: FileRecord) -> bool:
    """Whether the file exists and has the recorded size and hash."""
    return path.is_file() and path.stat().st_size == record.bytes and hash_file(path) == record.sha256


def hash_weights(files: dict[str, FileRecord]) -> str:
    """Return the sha256 that identifies a model of safetensors files."""
    weights = {name: record.sha256 for name, record in sorted(files.items()) if name.endswith(".safetensors")}
    if len(weights) == 1:
        return next(iter(weights.values()))
    return hashlib.sha256("".join(f"{sha256}  {name}\n" for name, sha256 in weights.items()).encode()).hexdigest()


def count_parameters(folder: Path, name: str) -> tuple[int, str]:
    """Return (number of parameters, stored dtype) from the safetensors headers, without reading the weights.

    The dtype is the one of most parameters. Raises `ModelError` if there are no safetensors or one cannot be read.
    """
    count: Counter[str] = Counter()
    for path in folder.glob("*.safetensors"):
        try:
            with safe_open(path, "np") as file:
                for tensor in map(file.get_slice, file.keys()):
                    count[tensor.get_dtype()] += math.prod(tensor.get_shape())
        except SafetensorError as error:
            raise ModelError(f"{name}: {path.name} is not a safetensors file: fetch it again.") from error
    if not count:
        raise ModelError(
            f"{name} has no safetensors weights: convert it with `save_pretrained`; pickled weights are never loaded."
        )
    dtype = count.most_common(1)[0][0]
    return count.total(), _DTYPES.get(dtype, dtype.lower())
