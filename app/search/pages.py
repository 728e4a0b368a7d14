"""The page Search: a form whose address holds the query, and the samples that fit with an excerpt each."""

from __future__ import annotations

from flask import Blueprint, render_template, request
from pydantic import ValidationError

from app.core.errors import BadInputError
from app.datasets import repository as datasets
from app.samples.models import Sample
from app.samples.transport import searched
from app.search import repository, service
from app.search.schemas import LONGEST, SearchQuery
from app.web.http.web import session
from app.web.ui.display import VERDICTS
from app.web.ui.form_errors import labelled, sentence
from evaluation.verdicts import FAILURES

bp = Blueprint("search", __name__)

LABELS = {
    "q": "Text",
    "failure": "Failure",
    "verdict": "Verdict",
    "run": "Run",
    "task_id": "Task",
    "target": "Model",
    "dataset": "Dataset",
    "tag": "Tag",
    "cursor": "Cursor",
}


@bp.get("/search")
def index() -> str | tuple[str, int]:
    """Samples that hold the words of `?q=` and fulfil the filters, newest first; `?cursor=` gives the next page."""
    asked = {name: request.args.get(name, "").strip() for name in LABELS}
    given = {name: value for name, value in asked.items() if value}
    found, error = None, ""
    if set(given) - {"cursor"}:
        try:
            found = service.search(session(), SearchQuery.model_validate(given))
        except ValidationError as fault:
            first = fault.errors()[0]
            error = sentence(LABELS[str(first["loc"][0])], first)
        except BadInputError as fault:
            name = fault.field or ""
            error = labelled(str(fault), name, LABELS[name]) if name in LABELS else str(fault)
    page = render_template(
        "search/index.html",
        asked=asked | {"q": asked["q"][: LONGEST + 1]},  # a longer text would only come back as a larger page
        kept={name: value for name, value in given.items() if name != "cursor"},
        labels=LABELS,
        text_labels=searched(Sample),
        failures=[(name, name.replace("_", " ")) for name in FAILURES],
        verdicts=[(status, sign.name) for status, sign in VERDICTS.items()],
        targets=repository.targets(session()),
        datasets=sorted({dataset.name for dataset in datasets.list_datasets(session())}),
        found=found,
        following=found.next if found else None,
        error=error,
    )
    return (page, BadInputError.status) if error else page
