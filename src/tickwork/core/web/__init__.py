"""Outgoing requests, without the network: addresses, URLs, and the meaning of responses."""
