"""The requests that an engine decodes before the first one of a user, so that all costs are known."""

from __future__ import annotations

from decoding.drafters.registry import DrafterSpec
from decoding.request import Request

# Length of a prompt without repeated tokens.
_N_DISTINCT_TOKENS = 32


def list_warm_up_requests(drafter: DrafterSpec) -> list[Request]:
    """Return requests that prefill a prompt, score one, and draft with all parts of the drafter."""
    distinct = tuple(range(_N_DISTINCT_TOKENS))
    requests = [
        Request(prompt=distinct, max_new_tokens=1, prompt_logprobs=0),
        Request(prompt="def add(a, b):\n    return a + b\n" * 12, n=2, max_new_tokens=8),
    ]
    if drafter.looks_up and (drafter.model or drafter.needs_head):
        # After tokens that are all different a lookup finds nothing, so the model drafts.
        requests.append(Request(prompt=distinct, n=2, max_new_tokens=8))
    return requests
