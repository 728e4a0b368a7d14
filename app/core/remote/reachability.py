"""Whether a server answers at all, asked before anything is stored for it."""

from __future__ import annotations

from app.core.errors import BadInputError
from app.core.remote.chunks import RemoteServerError
from app.core.remote.connection import ServerConnection
from app.core.remote.event_loop import run_in_own_loop
from app.core.remote.target import RemoteTarget, parse_target
from decoding.request import RequestError


def require_answering(target: str) -> None:
    """Raises BadInputError unless something answers at the endpoint of an `openai:` target, takes the key, and has
    no models below /v1 instead. Ask only for an allowed target: this sends a request."""
    try:
        run_in_own_loop(_require_answer(parse_target(target)))
    except (RemoteServerError, RequestError) as error:
        raise BadInputError(f"target: {error}", "target") from None


async def _require_answer(target: RemoteTarget) -> None:
    async with ServerConnection(target) as server:
        models, _ = await server.fetch_page(f"{server.address}/models")
        if models or target.base_url.endswith("/v1"):  # some have no such page
            return
        usual = f"{server.address}/v1"
        models, _ = await server.fetch_page(f"{usual}/models")
        if models:
            raise RemoteServerError(f"{server.address} has no models, {usual} has: use that address")
