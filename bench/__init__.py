"""Benchmarks of Tickwork on this machine, compared with a minimal SQL queue (`bench/raw`). `make bench`."""
