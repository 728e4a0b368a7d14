"""HTTP for all endpoints: callers, browser security, problems, paging, limits, OpenAPI, static files."""
