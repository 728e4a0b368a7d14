import pytest

from evaluation.sandbox import Sandbox, SandboxUnavailableError
from tests.thorough import tiers


@pytest.fixture(scope="session", params=tiers())
def sandbox(request):
    """Each tier that this machine offers; the others are skipped with the sandbox's own reasons."""
    try:
        return Sandbox.detect(only=request.param)
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
