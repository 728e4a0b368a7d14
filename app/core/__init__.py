"""What every domain builds on: settings, errors, the context, database, events and broker."""
