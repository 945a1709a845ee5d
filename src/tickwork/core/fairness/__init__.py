"""Fairness between jobs that may start: fair turns of tenants, and protection from starvation."""
