"""The sandbox of each tier."""

import pytest

from tests.evaluation.sandboxes import sandbox_or_skip
from tests.thorough import tiers


@pytest.fixture(scope="session", params=tiers())
def sandbox(request):
    """Each tier that this machine offers."""
    found = sandbox_or_skip(request.param)
    yield found
    found.close()
