"""Names of queues and Celery tasks. docker-compose.yml must consume every queue named here (a test checks it)."""

from __future__ import annotations

GPU_INTERACTIVE = "gpu.interactive"
GPU_BATCH = "gpu.batch"
EXEC = "exec"
CONTROL = "control"
ALL = (GPU_INTERACTIVE, GPU_BATCH, EXEC, CONTROL)
GPU = (GPU_INTERACTIVE, GPU_BATCH)  # listing order is priority: someone waits for an interactive answer

PREPARE_RUN = "runs.prepare"
DECODE_TASK = "runs.decode"
GRADE_TASK = "runs.grade"
REAP = "runs.reap"

ROUTES = {PREPARE_RUN: EXEC, GRADE_TASK: EXEC, REAP: CONTROL}
