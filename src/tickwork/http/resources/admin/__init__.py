"""Routes for administrators: keys, users, sessions, secrets, workers, settings and the audit log."""
