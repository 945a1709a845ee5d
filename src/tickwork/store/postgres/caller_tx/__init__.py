"""Statements inside a transaction of the caller's own: enqueue and finish with the caller's data."""
