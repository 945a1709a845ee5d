"""Rules of workers: how many a queue needs, batches of jobs in one call, and one job for each worker."""
