"""Run statements inside a caller's own transaction: enqueue and finish together with the caller's data."""
