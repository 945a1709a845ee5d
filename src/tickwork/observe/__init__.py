"""Observability: metrics, a dashboard and alert rules generated from them, and JSON logs."""
