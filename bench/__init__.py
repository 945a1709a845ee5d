"""Benchmarks: what Tickwork reaches on this machine, beside the least SQL that could do the same. `make bench`."""
