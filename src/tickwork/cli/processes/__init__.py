"""Commands that start or list long-running processes: worker, server, up and dev."""
