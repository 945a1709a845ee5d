"""Rules of access: scopes, who may use which secret, login backoff, and which jobs are audited."""
