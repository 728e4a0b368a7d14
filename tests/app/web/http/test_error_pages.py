"""The page of an error says what happened in a heading and a sentence, and offers one thing to do."""

from __future__ import annotations

import io
import re

import pytest

from app.core.errors import UnavailableError
from app.site.factory import create_app
from app.web.http import limits

NO_RUN = "/runs/01a202e9-6c86-712b-aaac-5efaa44a3158"
TO_DELETE = "/datasets/01a202e9-0000-7000-8000-000000000000/delete"


@pytest.fixture
def app(ctx):
    found = create_app(ctx)
    found.view_functions["site.about"] = lambda: (_ for _ in ()).throw(UnavailableError("the database is away"))
    return found


def told(answer) -> tuple[str, str, str, str]:
    """(heading, sentence, label, address) of the page."""
    main = answer.text.split("<main", 1)[1]
    heading = re.search(r"<h1>(.*?)</h1>", main)[1]
    sentence = re.search(r"<p>([^<]*)</p>", main)[1]
    ((address, label),) = re.findall(r'<a class="button primary" href="([^"]*)">([^<]*)</a>', main)
    return heading, sentence, label, address


@pytest.mark.parametrize(
    ("path", "heading", "sentence", "label", "address"),
    [
        ("/nope", "Page not found", "No page has this address", "First page", "/"),
        (NO_RUN, "Page not found", "There is no run 01a202e9", "First page", "/"),
        ("/studies?before=x", "Something in this request is wrong", "", "First page", "/"),
        (TO_DELETE, "This address is for a button, not a page", "Nothing was", "First page", "/"),
        ("/about?x=1", "The service is busy", "The database is away.", "Try again", "/about?x=1"),
    ],
)
def test_an_error_has_one_way_on(app, path, heading, sentence, label, address):
    found = told(app.test_client().get(path))
    assert (found[0], found[2], found[3]) == (heading, label, address)
    assert found[1].startswith(sentence)
    assert found[1].endswith(".")
    assert not found[1].endswith("..")


def test_a_form_from_before_a_restart_says_so_and_leads_back_to_its_page(app):
    client = app.test_client()
    sent = {"target": "smollm2-135m"}
    for headers, back in (({"Referer": "http://localhost/runs/new?n=4"}, "/runs/new?n=4"), ({}, "/")):
        answer = client.post("/runs/new", data=sent, headers=headers)
        assert answer.status_code == 400
        heading, sentence, _, address = told(answer)
        assert (heading, address) == ("This form has expired", back)
        assert "the service was restarted" in sentence


def test_an_upload_that_is_too_large_names_the_limit_and_the_remedy(app, monkeypatch):
    monkeypatch.setattr(limits, "UPLOAD_BYTES", 2**20)
    app.config["MAX_CONTENT_LENGTH"] = 2**20
    answer = app.test_client().post("/datasets", data={"file": (io.BytesIO(bytes(2**20 + 1)), "big.jsonl")})
    assert answer.status_code == 413
    heading, sentence, label, _ = told(answer)
    assert (heading, label) == ("The upload is too large", "First page")
    assert sentence == "At most 1 MiB are accepted here: compress the file with gzip, or split it."
