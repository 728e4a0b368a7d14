"""Names of queues and Celery tasks.

docker-compose.yml must consume every queue named here (a test checks it).
"""

from __future__ import annotations

GPU_INTERACTIVE = "gpu.interactive"
GPU_BATCH = "gpu.batch"
EXEC_INTERACTIVE = "exec.interactive"
EXEC = "exec"
# Listing order is priority: work that a user waits for first.
GPU = (GPU_INTERACTIVE, GPU_BATCH)
SANDBOX = (EXEC_INTERACTIVE, EXEC)
ALL = (GPU_INTERACTIVE, EXEC_INTERACTIVE, EXEC, GPU_BATCH)

WORK_JOB = "jobs.work"
PREPARE_RUN = "runs.prepare"
DECODE_TASK = "runs.decode"
GRADE_TASK = "runs.grade"
