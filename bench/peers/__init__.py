"""Comparison with other job queues: the same workloads on the same machine in the same run. `make bench-peers`."""
