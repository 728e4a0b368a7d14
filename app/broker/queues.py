"""Names of queues and Celery tasks.

docker-compose.yml must consume every queue named here (a test checks it). Beside these, each model that a worker
declares has queues of its own (app/broker/model_queues.py).
"""

from __future__ import annotations

GPU_INTERACTIVE = "gpu.interactive"
GPU_BATCH = "gpu.batch"
EXEC_INTERACTIVE = "exec.interactive"
EXEC = "exec"
CONTROL = "control"
# Listing order is priority: the reaper's messages first, then work that a user waits for.
GPU = (GPU_INTERACTIVE, GPU_BATCH)
SANDBOX = (CONTROL, EXEC_INTERACTIVE, EXEC)
ALL = (CONTROL, GPU_INTERACTIVE, EXEC_INTERACTIVE, EXEC, GPU_BATCH)

PREPARE_RUN = "runs.prepare"
DECODE_TASK = "runs.decode"
GRADE_TASK = "runs.grade"
REAP = "runs.reap"
SWEEP = "retention.sweep"

ROUTES = {REAP: CONTROL, SWEEP: CONTROL}
