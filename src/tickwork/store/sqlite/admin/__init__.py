"""Administration on SQLite: access, audit log, hooks, notifications and bulk operations."""
