"""The built-in tasks: shell, http, smtp, sleep and canary."""
