"""The database behind its verbs."""
