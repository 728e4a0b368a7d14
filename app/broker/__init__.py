"""Messages between processes: the Celery application, its queues and the broker in memory."""
