"""Claims on PostgreSQL: plain and limited claims, and the cursors at which the next claim resumes."""
