"""Lists, searches and statistics on PostgreSQL."""
