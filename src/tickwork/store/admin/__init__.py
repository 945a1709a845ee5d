"""Store verbs for administration: access, audit log, hooks, notifications and bulk operations."""
