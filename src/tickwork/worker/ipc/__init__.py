"""Communication between a supervisor and its child processes: messages, shared memory and standard streams."""
