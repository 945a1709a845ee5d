"""Arguments of tasks: read from the task's signature, checked, converted and encoded as JSON."""
