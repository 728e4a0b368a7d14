"""Tasks, prompts, extraction, sandbox, grading, metrics and statistical inference. Knows no torch and no database."""

import os

# The matrices here take a millisecond. More threads would wait for each other on a busy machine, and spin on the cores
# that decoding needs. Read once, when numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
