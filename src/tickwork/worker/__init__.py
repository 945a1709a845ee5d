"""The worker: a supervisor that claims jobs, renews its lease and stores outcomes, and executors that run handlers."""
