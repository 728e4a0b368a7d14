"""What every endpoint shares: callers and browser security, problems, paging, limits, OpenAPI."""
