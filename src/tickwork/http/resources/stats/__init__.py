"""Routes for statistics, metrics, health, search and the stream of changes."""
