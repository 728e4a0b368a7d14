"""One service with a fake engine for the tests of each file."""

from __future__ import annotations

import openai
import pytest

from app.core.context import Context
from app.core.states import RunKind
from app.runs.models import Run
from app.runs.repository import RunFilter, list_runs
from tests.app.openai_service import served_service
from tests.fakes import INFILL, FakeEngine


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openai")
    with pytest.MonkeyPatch.context() as patch, served_service(folder) as found:
        patch.setenv("BASSLINE_CACHE_DIR", str(folder / "cache"))  # the fake fills in, and a cached model may not
        yield found


@pytest.fixture
def client(served) -> openai.OpenAI:
    return served[1]


@pytest.fixture
def engine(served) -> FakeEngine:
    """The fake, as if new."""
    found = served[0].load_engine(None, None)
    found.__init__()
    vars(found).update(has_chat_template=True, infill_format=INFILL)
    return found


@pytest.fixture
def post(client, engine):
    """Sends a body that a client would send to an address, and returns the answer."""
    address = str(client.base_url).removesuffix("/v1/")
    return lambda path, body: client._client.post(address + path, json=body, timeout=30)


def completions(ctx: Context) -> list[Run]:
    """The completions that were asked for, the last one first."""
    with ctx.database.read() as session:
        return list(list_runs(session, RunFilter(kinds=(RunKind.COMPLETION,))))


def newest(ctx: Context) -> Run:
    """The completion that was asked for last."""
    return completions(ctx)[0]
