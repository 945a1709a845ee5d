"""The shapes on SQLite."""
