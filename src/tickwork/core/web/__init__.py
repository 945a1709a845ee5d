"""Requests to the outside, as far as they need no network: addresses, URLs, what an answer means."""
