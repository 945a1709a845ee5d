"""Administration on PostgreSQL: access, audit log, hooks, notifications and bulk operations."""
