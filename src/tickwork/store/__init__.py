"""The store: all database access, behind one interface for SQLite and PostgreSQL."""
