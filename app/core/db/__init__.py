"""The database: engine and sessions, column types, ids, migrations."""
