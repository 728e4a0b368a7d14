"""Messages between processes: queues, the broker in memory and Celery's."""
