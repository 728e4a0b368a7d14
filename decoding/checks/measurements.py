"""What is measured of an engine on this machine: the cost of verifies, the machine's speed, equal bits in any batch."""

from __future__ import annotations

import torch

from decoding.attention.runner_pool import RunnerPool
from decoding.checks import calibration
from decoding.checks.invariance import MIN_ROWS, is_batch_invariant
from decoding.costs.verify import SIZES, VerifyCost, measure_verify_cost
from decoding.models.loaded import LoadedModel
from decoding.models.weight_formats import use_threads_for
from decoding.request import Calibration

# The most rows of a verify that is timed.
_DUMMY_ROWS = 8


class EngineMeasurements:
    """Measures in runners of the engine's pool; what depends on the target alone is measured once for it."""

    def __init__(self, target: LoadedModel, pool: RunnerPool) -> None:
        self._target = target
        self._pool = pool

    def get_verify_cost(self) -> VerifyCost:
        """Return the seconds of a verify by its tokens."""
        if self._pool.has_graphs:  # which are this engine's own
            return self._time_verifies()
        return self._target.compute_once("verify_cost", self._time_verifies)

    @torch.inference_mode()
    def _time_verifies(self) -> VerifyCost:
        longest = min(SIZES[-1], self._target.context_length - 1)
        with use_threads_for(self._target.weights), self._pool.acquire(_DUMMY_ROWS) as runners:
            return measure_verify_cost(lambda n_tokens: runners.target.verify_dummy(min(n_tokens, longest)))

    def is_batch_invariant(self) -> bool:
        """Return whether a token's logits do not depend on its batch here."""
        with use_threads_for(self._target.weights):
            return self._target.compute_once(
                "batch_invariant", lambda: is_batch_invariant(self._pool.make_runner(self._target, MIN_ROWS))
            )

    @torch.inference_mode()
    def calibrate(self) -> Calibration:
        """Return how fast the machine is now."""
        with self._pool.acquire(_DUMMY_ROWS) as runners:

            def verify(n_tokens: int) -> None:
                with use_threads_for(self._target.weights):
                    runners.target.verify_dummy(n_tokens)

            return calibration.calibrate(verify, self._target.device, self._target.dtype)
