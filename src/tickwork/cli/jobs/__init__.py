"""Commands for jobs, dead letters and queues."""
