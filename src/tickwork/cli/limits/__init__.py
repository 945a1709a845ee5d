"""Commands for limits, gates and tenants."""
