"""A study as a TOML file: a table [study] with what all arms share, and a table [[arms]] for each arm."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Sequence
from typing import Any

from app.core.errors import BadInputError
from app.studies.schemas import ArmSpec, StudySpec
from decoding.suggest import suggest_one_of

STUDY_FIELDS = tuple(name for name in StudySpec.model_fields if name != "arms")
ARM_FIELDS = tuple(ArmSpec.model_fields)
MAX_FILE_BYTES = 2**20  # bytes


def parse_study_file(data: bytes, origin: str, further: Sequence[str] = ()) -> dict[str, Any]:
    """The values for a StudySpec; only keys are checked. `further` are extra keys that arms may have.

    Raises BadInputError that names `origin`, the table and the key.
    """
    if len(data) > MAX_FILE_BYTES:
        raise BadInputError(
            f"{origin} has more than {MAX_FILE_BYTES // 2**20} MiB: it does not describe a study", "file"
        )
    try:
        tables = tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise BadInputError(f"{origin} is not UTF-8 at byte {error.start}: save it as UTF-8", "file") from None
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{origin} is not TOML: {error}", "file") from None
    _check(tables, ("study", "arms"), origin)
    study, arms = tables.get("study", {}), tables.get("arms", [])
    if not isinstance(study, dict):
        raise BadInputError(f"{origin}: study is not a table, write it as [study]", "study")
    if not isinstance(arms, list) or not all(isinstance(arm, dict) for arm in arms):
        raise BadInputError(f"{origin}: arms are not tables, write each as [[arms]]", "arms")
    _check(study, STUDY_FIELDS, f"{origin}, [study]", ARM_FIELDS, "an option of each arm: write it under [[arms]]")
    for number, arm in enumerate(arms, start=1):
        where = f"{origin}, arm {number}"
        _check(arm, (*ARM_FIELDS, *further), where, STUDY_FIELDS, "the same for all arms: write it under [study]")
    return {**study, "arms": arms}


def format_study_command(spec: StudySpec) -> str:
    """The `bassline study run` that repeats the study: one line, with the file on standard input.

    Options with their default are left out.
    """
    study = spec.model_dump(mode="json", exclude={"arms"}, exclude_defaults=True)
    arms = ", ".join(_inline(arm.model_dump(mode="json", exclude_defaults=True)) for arm in spec.arms)
    lines = [f"study = {_inline(study)}", f"arms = [{arms}]"]
    return f"printf '%s\\n' {shlex.join(lines)} | bassline study run -"


def _inline(table: dict[str, Any]) -> str:
    """An inline table. TOML writes these values as JSON does, but for DEL, which it wants escaped."""
    pairs = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items())
    return "{" + ", ".join(pairs).replace("\x7f", "\\u007f") + "}"


def _check(
    table: dict[str, Any], keys: Sequence[str], where: str, misplaced: Sequence[str] = (), why: str = ""
) -> None:
    """Refuses an unknown key with the nearest known one, and one of the other table with its place."""
    for key in table:
        if key in misplaced and key not in keys:
            raise BadInputError(f"{where}: {key} is {why}", key)
        if key not in keys:
            raise BadInputError(f"{where}: {key[:60]!r} is not a key: {suggest_one_of(key, keys)}", key)
