"""Notifications: rules, matching of events, message texts, channels and delivery jobs."""
