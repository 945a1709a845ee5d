"""Connections to PostgreSQL: libpq, the pool, sessions, LISTEN and NOTIFY."""
