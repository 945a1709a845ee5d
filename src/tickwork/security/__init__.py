"""Credentials: API keys, users and passwords, and the vault of encrypted secrets."""
