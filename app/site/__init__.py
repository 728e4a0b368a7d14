"""The application: every domain joined, the layers around each request, and the pages that belong to no domain."""
