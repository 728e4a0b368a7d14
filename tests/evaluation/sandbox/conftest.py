import pytest

from evaluation.sandbox import Sandbox, SandboxUnavailableError


@pytest.fixture(scope="session", params=["bwrap", "landlock"])
def sandbox(request):
    """Each tier that this machine offers; the others are skipped with the sandbox's own reasons."""
    try:
        return Sandbox.detect(only=request.param)
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
