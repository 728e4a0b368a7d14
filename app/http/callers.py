"""Who a request comes from."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from app.states import Scope


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request comes from. `key` tells callers apart; `user_id` is None for this machine and for free tokens."""

    key: str
    name: str
    scope: Scope
    user_id: uuid.UUID | None = None


LOCAL = Caller("local", "this machine", Scope.ADMIN)
