"""Long-lived answers: server-sent events, followed logs, and waiting for jobs to end."""
