"""The baseline: minimal SQL that stores, claims and finishes jobs, without handlers, retries, leases or history.

FROZEN. Our figures are given relative to these, so that they can be compared between machines and releases; any change
of the code here invalidates all earlier ratios. Make improvements in Tickwork instead.
"""
