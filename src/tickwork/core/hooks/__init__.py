"""Hooks: messages of other services, signed, that become jobs. What they are, and whether one is genuine."""
