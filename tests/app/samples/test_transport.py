"""Every format has the columns that are declared for it."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field, ValidationError
from sqlalchemy import String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.comparison import run_file
from app.runs.documents import FIELDS, SampleDocument
from app.samples.models import Sample
from app.samples.transport import (
    ARCHIVE,
    IMPORT,
    REST,
    RUN_FILE,
    add_columns,
    define_exported_column,
    list_file_types,
)
from app.studies.archive import ArchiveCalibration, ArchiveSample, ArchiveTask
from app.web.http.schemas import ResponseModel

DECODED = (
    "index seed raw program extraction extraction_version finish_reason n_tokens mean_logprob first_token_s finished_s "
    "n_rounds n_drafted n_accepted"
)
EXPORTED = (
    "run_id task_id index seed prompt_sha256 raw program extraction extraction_version finish_reason n_tokens "
    "mean_logprob queue_s first_token_s finished_s sandbox_s budget_s lost_to_others n_rounds n_drafted n_accepted "
    "verdict failure detail trust"
)
FORMATS = {
    SampleDocument: f"task_id {DECODED} verdict failure detail traceback cpu_s isolation trust",
    ArchiveSample: f"{DECODED} verdict verdict_detail trust isolation",
    ArchiveTask: "task_id n_prompt_tokens cached_tokens queue_s prefill_s draft_s verify_s other_s wall_s sandbox_s "
    "n_rounds n_verified capacity_s others_cpu_s steal_s load_average samples",
    ArchiveCalibration: "worker at verify_s read_bytes_per_s flops_per_s",
    run_file._Sample: "index n_tokens mean_logprob finish_reason finished_s n_rounds n_accepted verdict trust",
    run_file._Task: "task_id state queued_at queue_s wall_s capacity_s others_cpu_s steal_s samples",
    run_file._Calibration: "worker at verify_s read_bytes_per_s",
}


class Local(DeclarativeBase):
    """Tables of this test, which the service's metadata does not have."""


class Made(Local):
    __tablename__ = "made"

    id: Mapped[int] = mapped_column(primary_key=True)
    old: Mapped[int] = define_exported_column(REST | ARCHIVE, Annotated[int, Field(ge=0)], alias="elder")
    young: Mapped[int] = define_exported_column(REST | ARCHIVE | RUN_FILE, int)
    maybe: Mapped[str | None] = define_exported_column(REST, str, String(3))


class Empty(ResponseModel):
    """A model that has the columns alone."""


@pytest.mark.parametrize("model", FORMATS, ids=lambda model: model.__name__)
def test_a_format_keeps_its_fields(model):
    assert sorted(model.model_fields) == sorted(FORMATS[model].split())


def test_exports_keep_their_columns():
    assert sorted(FIELDS) == sorted(EXPORTED.split())


def test_the_verdict_of_another_tool_is_not_imported():
    assert list(list_file_types(Sample, IMPORT)) == DECODED.split()


def test_a_column_goes_where_it_is_declared_to_go():
    assert [tuple(list_file_types(Made, form)) for form in (REST, ARCHIVE, RUN_FILE, IMPORT)] == [
        ("old", "young", "maybe"),
        ("old", "young"),
        ("young",),
        (),
    ]


def test_documents_have_the_alias_and_any_stored_value():
    document = add_columns(Made, REST)(Empty)
    assert document.from_row(Made(old=-1, young=2), elder=-1).model_dump() == {"elder": -1, "young": 2, "maybe": None}


def test_files_have_the_column_s_name_and_refuse_damage():
    file = add_columns(Made, ARCHIVE)(Empty)
    assert file(old=3, young=2).model_dump() == {"old": 3, "young": 2}
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        file(old=-1, young=2)
