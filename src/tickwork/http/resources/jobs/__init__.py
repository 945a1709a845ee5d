"""Routes for jobs, dead letters, queues and the leases of remote workers."""
