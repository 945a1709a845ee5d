"""Who calls, what they may do, and what the audit log records of it."""
