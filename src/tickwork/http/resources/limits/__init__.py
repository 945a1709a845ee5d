"""Routes for limits, gates and tenants."""
