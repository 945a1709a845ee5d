"""Commands for administrators: keys, users, secrets, the audit log, alerts, settings and the database."""
