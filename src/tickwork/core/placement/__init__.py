"""On which workers a job may run: what it needs, and the worker that it sticks to."""
