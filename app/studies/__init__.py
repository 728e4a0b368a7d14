"""Studies: several configurations, the arms, that take turns over the same tasks."""
