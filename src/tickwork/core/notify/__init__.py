"""Notifications: who is to be told of what, when that is due, and in which words."""
