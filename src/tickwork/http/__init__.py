"""The HTTP server: typed routes over the same client calls that Python users make."""
