"""Peers beside us: the same workloads, on the same machine, in the same run. `make bench-peers`."""
