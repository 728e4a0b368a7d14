"""What every head that drafts must satisfy, whatever its source: otherwise texts are wrong or drafts useless."""

from __future__ import annotations

import torch

from decoding.models.dflash import DFlash
from decoding.models.errors import ModelError


def require_sound(head: DFlash, vocab_size: int, owner: str) -> None:
    """Raise ModelError unless each token of the head is another one of the `vocab_size` of `owner`, all weights finite.

    A head that names a token twice gives it two chances in its distribution q, of which the maximal rule sees one; the
    text would then not follow the target's distribution.
    """
    ids = head.token_ids
    if int(ids.min()) < 0 or int(ids.max()) >= vocab_size:
        raise ModelError(f"the head proposes tokens that {owner} does not have: it is for another model.")
    if len(twice := (ids.bincount() > 1).nonzero()):
        token = int(twice[0])
        raise ModelError(f"the head's tensor d2t names token {token} more than once: fetch or train the head again.")
    for name, tensor in head.state_dict().items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"the head's tensor {name} has values that are not finite: fetch or train the head again.")
