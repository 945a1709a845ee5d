"""Credentials of people and programs, and the vault of sealed secrets."""
