"""Claims on PostgreSQL: the round, and where the next scan of the queue resumes."""
