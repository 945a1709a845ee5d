"""Arguments of a task: read from its signature, checked, converted and encoded."""
