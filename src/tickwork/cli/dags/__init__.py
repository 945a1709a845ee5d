"""Commands for dags and their runs."""
