"""The shapes on PostgreSQL."""
