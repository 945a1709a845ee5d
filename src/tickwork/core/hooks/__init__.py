"""Webhooks: signed messages of other services that become jobs, and the verification of their signatures."""
