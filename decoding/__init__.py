"""The engine: prompts in, samples out, before a deadline."""

import os

# Grading runs beside decoding. By default OpenMP's idle threads spin on the cores that others need, and on a busy
# machine a step then takes several times as long. Threads that sleep at once cost 50 microseconds at every operation
# instead, which is a third of a small model's step. So they spin for about as long as one operation takes, and then
# sleep. Both are read once, when torch is imported; docs/decoding-cpu.md has the figures.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
