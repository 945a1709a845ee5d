"""The deterministic simulator: the shipped worker, services and SQLite store, on one thread, in virtual time.

    python -m sim --seeds 300 --from 0

A seed determines everything: the number of processes, what they do, and which faults occur. The same seed gives the
same events, byte for byte. Only the environment of the product is simulated: time, handlers and faults.
"""
