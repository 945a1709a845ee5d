"""A file for each resource: the shapes of its bodies, and its routes."""
