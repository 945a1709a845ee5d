"""Connections and request bodies, with bounds on their number, time and size."""
