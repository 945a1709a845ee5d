"""Limited claims on PostgreSQL: the round, and the cursors at which the next claim resumes."""
