"""`tickwork demo`: a small shop with a real worker and a real server."""
