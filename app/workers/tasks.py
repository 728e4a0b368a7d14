"""What a worker's child process does when it starts: it begins to report itself."""

from __future__ import annotations

from celery.signals import worker_process_init


@worker_process_init.connect
def _report(**_: object) -> None:
    from app import tables  # noqa: PLC0415
    from app.celery_app import configure  # noqa: PLC0415
    from app.context import current  # noqa: PLC0415
    from app.workers.service import Heartbeat  # noqa: PLC0415

    assert tables.metadata.tables  # every mapper must be known before the first query, whichever thread makes it
    configure(current().settings)  # a spawned child starts from the module, not from its parent's settings
    Heartbeat(current()).start()
