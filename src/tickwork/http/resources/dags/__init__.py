"""Routes for dags and their runs."""
