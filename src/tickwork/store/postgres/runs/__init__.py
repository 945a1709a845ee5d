"""Runs of dags on PostgreSQL: their rows inside a transaction, and the transactions that change them."""
