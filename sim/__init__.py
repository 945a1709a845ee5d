"""The deterministic simulator: the shipped worker, services and SQLite store, on one thread, in virtual time.

    python -m sim --seeds 300 --from 0

A seed sets everything: how many processes there are, what they do, and which faults hit them. The same seed gives the
same events, to the byte. What is simulated is only what surrounds the product: time, handlers, and misfortune.
"""
