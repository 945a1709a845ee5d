"""The yardstick: the least SQL that stores, claims and finishes jobs, without handlers, retries, leases or history.

FROZEN. Our figures are given as a share of these, so that they can be compared between machines and releases; a change
here makes every earlier ratio worthless. What is faster than this belongs into Tickwork.
"""
