"""Authentication, scopes, and the audit log of refused calls."""
