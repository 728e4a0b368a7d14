"""Imports a published head for a target, or measures the one that it has again, on fresh text."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError

from decoding.models import dflash_files, trained_heads
from decoding.models.cache_folders import CONFIG, WEIGHTS
from decoding.models.dflash import DFlash
from decoding.models.errors import ModelError, get_first_line
from decoding.models.loaded import LoadedModel, ModelSpec
from decoding.models.registry import is_repository
from decoding.models.trained_heads import HeadRecord
from decoding.prepare import load_unpacked, refuse_own_attention
from decoding.request import Request, SamplingParams
from decoding.training import measure
from decoding.training.collection import PromptBuilder, choose_fitting_prompts
from decoding.training.initial import read_output_rows
from decoding.training.statements import Statement
from decoding.training.text_recorder import TextRecorder

_N_PROMPTS = 8
_LONGEST = 48


def import_or_measure_head(
    target: str,
    source: str | None,
    statements: Iterator[Statement],
    make_prompt_builder: Callable[[LoadedModel], PromptBuilder],
) -> HeadRecord:
    """Import a head from `source`, or check the target's own if that is None; return its record, newly measured.

    Raises ModelError for a source that cannot be read, and for a head that does not fit the target.
    """
    loaded = load_unpacked(ModelSpec(target))
    refuse_own_attention(loaded)
    prompts = choose_fitting_prompts(loaded, make_prompt_builder(loaded), statements, _N_PROMPTS, _LONGEST)
    config = loaded.model.config.get_text_config()
    if source is None:
        known = trained_heads.verify_head(loaded)
        head = dflash_files.read(trained_heads.get_head_folder(target), config)
        return replace(known, match=_match(head, loaded, prompts))
    with TemporaryDirectory() as scratch:
        head = dflash_files.read(
            _fetch_folder(source, Path(scratch)), config, lambda ids: read_output_rows(loaded, ids)
        )
    return _store(head, source, loaded, prompts)


def _store(head: DFlash, source: str, target: LoadedModel, prompts: list[str]) -> HeadRecord:
    match = _match(head, target, prompts)
    return trained_heads.store(
        target,
        head,
        lambda stored, sha256, n_bytes: trained_heads.describe_head(
            target, stored, source, sha256, n_bytes, match=match
        ),
    )


def _match(head: DFlash, target: LoadedModel, prompts: list[str]) -> list[float]:
    requests = [Request(prompt, sampling=SamplingParams(0.0), max_new_tokens=_LONGEST) for prompt in prompts]
    done = TextRecorder(target, head.shape.taps).record(requests)
    return measure.measure_match(head, target, [recording for _, recording in done if recording is not None])


def _fetch_folder(source: str, scratch: Path) -> Path:
    if not source.startswith("hf:"):
        folder = Path(source).expanduser()
        if not (folder / CONFIG).is_file():
            raise ModelError(f"{source} has no {CONFIG}: give a folder with a DFlash head, or hf:owner/name.")
        return folder
    repo, _, revision = source.removeprefix("hf:").partition("@")
    if not is_repository(repo):
        raise ModelError(f"{source} is not of the form hf:owner/name[@revision].")
    try:
        huggingface_hub.snapshot_download(
            repo, revision=revision or None, local_dir=scratch, allow_patterns=[CONFIG, WEIGHTS]
        )
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise ModelError(
            f"{source} cannot be fetched ({get_first_line(error)}): check the name and the connection."
        ) from error
    shutil.rmtree(scratch / ".cache", ignore_errors=True)
    return scratch
