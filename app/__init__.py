"""The service: settings, database, jobs, REST, pages and command line."""
