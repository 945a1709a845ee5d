"""Access rules: scopes, secret policies, login backoff, and which jobs are audited."""
