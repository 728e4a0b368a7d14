"""Health and metrics, for orchestrators and Prometheus."""
