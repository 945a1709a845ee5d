"""Answers that last: server-sent events, followed logs, and waiting for jobs to end."""
