"""Lists, searches and statistics on SQLite."""
