"""One module for each resource of the API: its bodies and its routes."""
