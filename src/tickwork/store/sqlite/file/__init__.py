"""The SQLite file: connections, the queue of writers, wake-ups and the clock."""
