"""The sender of a request."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from app.states import Scope


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `key` is unique; `user_id` is None for this machine and for tokens without a user."""

    key: str
    name: str
    scope: Scope
    user_id: uuid.UUID | None = None


LOCAL = Caller("local", "this machine", Scope.ADMIN)
